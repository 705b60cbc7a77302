package failure

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// stage is the place of a rule in the order of decision.
func (r rule) stage() int {
	switch {
	case r.finish != nil:
		return 0
	case r.code != nil, r.kind == nil && r.phrase == nil && r.when != nil && r.on != nil && r.on(200) && !r.on(400):
		return 1
	case r.kind != nil:
		return 2
	case r.phrase != nil:
		return 3
	default:
		return 4
	}
}

func TestTheTableKeepsTheOrderOfDecision(t *testing.T) {
	t.Parallel()
	before := 0
	for i, r := range table() {
		require.GreaterOrEqual(t, r.stage(), before, "row %d", i)
		before = r.stage()
	}
}

func TestPhrasesNeverDecideAServerFailure(t *testing.T) {
	t.Parallel()
	for i, r := range table() {
		if r.phrase == nil {
			continue
		}
		require.NotNil(t, r.on, "row %d", i)
		for status := 500; status < 600; status++ {
			require.False(t, r.on(status), "row %d", i)
		}
		require.False(t, r.on(401), "row %d", i)
	}
}
