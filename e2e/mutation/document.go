package mutation

import (
	"fmt"
	"strings"
)

const heading = `# Guards, and what notices when one is gone

A test proves something only if it fails when the promise is broken. Each row takes one guard away, by the smallest change that does, and names the command that
fails because of it. ` + "`make mutations`" + ` tries them all; it lays the broken file over the sources for one run and changes nothing.
The guards of the simulation's models have a table of their own in [simulation.md](simulation.md).

| guard | what it is for | where | noticed by |
| --- | --- | --- | --- |
`

// Document is docs/mutations.md.
func Document() string {
	var text strings.Builder
	text.WriteString(heading)
	for _, m := range All() {
		fmt.Fprintf(&text, "| %s | %s | `%s` | `go %s` |\n", m.Name, m.Guard, m.File, escape(strings.Join(m.Caught, " ")))
	}
	return text.String()
}

// escape keeps a pipe from ending a cell of the table.
func escape(cell string) string { return strings.ReplaceAll(cell, "|", "\\|") }
