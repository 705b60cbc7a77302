package doctor_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/cmd/pawl/doctor"
	"pawl.internal/services/internal/golden"
	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// Every check is in the reference.
func TestDoctorReference(t *testing.T) {
	t.Parallel()
	checks, err := doctor.Checks()
	require.NoError(t, err)
	var page bytes.Buffer
	page.WriteString(`# pawl doctor

<!-- Made from the checks of services/cmd/pawl/doctor: go test ./services/cmd/pawl/doctor -update -->

` + "`pawl doctor`" + ` reads the stores of a running system and checks every promise that a query can check. It asks no service, changes nothing, and may be run at any time; what it says was true in one snapshot of the
database. What the system puts right by itself is reported only when it stays for longer than the system may take, and ` + "`--patience`" + ` more: then the doctor looks again, until that is decided. Unfinished runs are all looked at (up to
100 000), of the others the newest (` + "`--recent`" + `).

It exits with 0 when nothing is broken (warnings and notes are shown; with ` + "`--strict`" + ` warnings count), with 8 when a promise is broken, and with 1 when something could not be checked. ` + "`--repair CHECK`" + `, or ` + "`--repair all`" + `, repairs what is safe;
it never writes the state of a run. ` + "`--json`" + ` says the same for programs.

| check | severity | promise | within | what it means | what to do | repair |
| --- | --- | --- | --- | --- | --- | --- |
`)
	seen := map[string]bool{}
	for _, c := range checks {
		require.False(t, seen[c.Name], c.Name)
		seen[c.Name] = true
		require.NotEmpty(t, c.Promise, c.Name)
		require.NotEmpty(t, c.Means, c.Name)
		require.NotEmpty(t, c.Remedy, c.Name)
		require.Equal(t, c.Mend == nil, c.Repair == "", c.Name)
		within := "always"
		if c.Settles > 0 {
			within = c.Settles.String()
		}
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s | %s | %s |\n",
			c.Name, c.Severity, c.Promise, within, c.Means, c.Remedy, strings.TrimSpace(c.Repair))
	}
	golden.Assert(t, "../../../../docs/reference/doctor.md", page.Bytes())
}
