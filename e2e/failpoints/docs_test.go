package failpoints

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/testkit"
)

//go:embed testdata/introduction.md
var introduction string

//go:embed testdata/unreached.md
var unreached string

// TestThePageSaysWhatTheSweepDemands compares docs/failpoints.md with the points and with what the sweep requires of each.
func TestThePageSaysWhatTheSweepDemands(t *testing.T) {
	t.Parallel()
	for _, point := range testkit.Failpoints() {
		swept := slices.ContainsFunc(crashes(), func(c crash) bool { return pointOf(c.rule) == point.Name })
		_, left := leftOut()[point.Name]
		require.NotEqual(t, swept, left, "either the sweep goes through %s, or the page says why not", point.Name)
	}
	testkit.Golden(t, filepath.Join(harness.Root(), "docs", "failpoints.md"), []byte(page()))
}

// page is the table of crash points and provider requests.
func page() string {
	var text strings.Builder
	text.WriteString(introduction)
	text.WriteString("| crash point | done before | not yet | runs end | requests to the provider per question | of unknown fate |\n")
	text.WriteString("| --- | --- | --- | --- | --- | --- |\n")
	for _, c := range crashes() {
		point := testkit.Failpoints()[slices.IndexFunc(testkit.Failpoints(), func(p testkit.Failpoint) bool { return p.Name == pointOf(c.rule) })]
		name := "`" + c.rule + "`"
		if c.policy != "" {
			name += ", `on_ambiguous: " + c.policy + "`"
		}
		requests := "1"
		if c.requests > 1 {
			requests = fmt.Sprintf("**%d** of the one in doubt, else 1", c.requests)
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s | %d |\n", name, point.Durable, point.Missing, c.status, requests, c.doubts)
	}
	text.WriteString(unreached)
	text.WriteString("| crash point | done before | not yet | what is shown in its place |\n| --- | --- | --- | --- |\n")
	for _, point := range testkit.Failpoints() {
		if instead, left := leftOut()[point.Name]; left {
			fmt.Fprintf(&text, "| `%s` | %s | %s | %s |\n", point.Name, point.Durable, point.Missing, instead)
		}
	}
	return text.String()
}

// pointOf is the name of a rule's point.
func pointOf(rule string) string { return rule[:strings.IndexAny(rule+"#", "(#")] }
