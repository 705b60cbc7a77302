package mutation_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/e2e/mutation"
	"pawl.internal/services/testkit"
)

// TestGuardsStandInTheSources fails when a guard was changed and the list was not, so that no mutation is lost unseen.
func TestGuardsStandInTheSources(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutation.All() {
		broken, err := m.Apply(harness.Root())
		require.NoError(t, err)
		require.Contains(t, string(broken), m.New)
		require.False(t, names[m.Name], "%s is listed twice", m.Name)
		names[m.Name] = true
	}
	require.GreaterOrEqual(t, len(names), 12)
}

// TestMutationsAreDocumented keeps docs/mutations.md in step with the list; -update writes it.
func TestMutationsAreDocumented(t *testing.T) {
	testkit.Golden(t, filepath.Join(harness.Root(), "docs", "mutations.md"), []byte(mutation.Document()))
}
