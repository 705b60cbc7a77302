package catalog_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/llmgateway/catalog"
)

// The example of the guide is what people begin with.
func TestTheGuidesExampleIsValid(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../../docs/guides/models.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(guide), "```yaml\n")
	require.True(t, found)
	example, _, _ := strings.Cut(rest, "```")
	env := func(string) (string, bool) { return "a-key-of-some-length", true }
	path := filepath.Join(t.TempDir(), "models.yaml")
	require.NoError(t, os.WriteFile(path, []byte(example), 0o600))
	c, err := catalog.Load(path, env, time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC))
	require.NoError(t, err)
	require.Empty(t, c.Warnings)
	require.True(t, c.Economy("nightly"))
}
