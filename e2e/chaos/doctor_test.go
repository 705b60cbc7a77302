package chaos

import (
	"testing"

	"pawl.internal/e2e/harness"
)

// doctor fails unless `pawl doctor` finds nothing on the fleet.
func doctor(t *testing.T, f *harness.Fleet) {
	t.Helper()
	_ = f // HOOK: harness.Run(t, "", "doctor", "--database-url", f.DatabaseURL(), …) as soon as the command is there
}
