package intake_test

import (
	"testing"

	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
