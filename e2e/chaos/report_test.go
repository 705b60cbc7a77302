package chaos

import (
	"bytes"
	_ "embed" // for the page's introduction
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"text/tabwriter"

	"pawl.internal/e2e/harness"
)

//go:embed testdata/introduction.md
var introduction string

// suite collects the verdicts of all tests of this binary, for the table at its end.
//
//nolint:gochecknoglobals // see above
var suite verdicts

type verdicts struct {
	mu   sync.Mutex
	rows []verdict // guarded by mu
}

func (s *verdicts) add(v verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows = append(s.rows, v)
}

// header and cells are the columns of the table.
func header() []string {
	return []string{
		"fault", "runs accepted", "finished", "started again", "steps executed twice", "requests in doubt", "calls paid twice", "seconds to recover",
	}
}

func (v verdict) cells() []string {
	cells := []string{v.fault}
	for _, n := range []int{v.accepted, v.finished, v.startedAgain, v.executedTwice, v.doubtful, v.paidTwice} {
		cells = append(cells, fmt.Sprint(n))
	}
	return append(cells, fmt.Sprintf("%.1f", v.recovery.Seconds()))
}

// table is what a person reads at the end of the tests.
func (s *verdicts) table() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rows) == 0 {
		return ""
	}
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, cells := range s.lines() {
		for _, cell := range cells {
			fmt.Fprintf(w, "%s\t", cell)
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // a buffer takes everything
	return text.String()
}

// lines are the header and the rows. s.mu is held.
func (s *verdicts) lines() [][]string {
	lines := [][]string{header()}
	for _, v := range s.rows {
		lines = append(lines, v.cells())
	}
	return lines
}

// page is the documentation's.
func page() string { return filepath.Join(harness.Root(), "docs", "chaos.md") }

// write writes the table to the documentation.
func (s *verdicts) write() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var text bytes.Buffer
	text.WriteString(introduction)
	for i, cells := range s.lines() {
		for _, cell := range cells {
			fmt.Fprintf(&text, "| %s ", cell)
		}
		text.WriteString("|\n")
		if i == 0 {
			for i := range cells {
				text.WriteString([]string{"| --- ", "| ---: "}[min(i, 1)])
			}
			text.WriteString("|\n")
		}
	}
	return os.WriteFile(page(), text.Bytes(), 0o644) //nolint:gosec // a file of the repository, for everybody
}
