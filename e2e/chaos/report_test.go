package chaos

import (
	"bytes"
	_ "embed" // for the page's introduction
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"pawl.internal/e2e/harness"
)

//go:embed testdata/introduction.md
var introduction string

// suite collects the verdicts of all tests of this binary, for the table at its end.
var suite verdicts

type verdicts struct {
	mu      sync.Mutex
	rows    []verdict // guarded by mu
	timings []timing  // guarded by mu
}

// timing is how long something took that a promise bounds.
type timing struct {
	what                   string
	n                      int
	median, longest, bound time.Duration
}

func (s *verdicts) addTiming(t timing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timings = append(s.timings, t)
}

func (t timing) cells() []string {
	return []string{t.what, fmt.Sprint(t.n), seconds(t.median), seconds(t.longest), seconds(t.bound)}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

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

// tables are those of the suite, each with its header.
func (s *verdicts) tables() (tables [][][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	faults, timings := [][]string{header()}, [][]string{{"seconds from … until …", "steps", "median", "longest", "promised"}}
	for _, v := range s.rows {
		faults = append(faults, v.cells())
	}
	for _, t := range s.timings {
		timings = append(timings, t.cells())
	}
	return [][][]string{faults, timings}
}

// text is what a person reads at the end of the tests.
func (s *verdicts) text() string {
	var text bytes.Buffer
	for _, table := range s.tables() {
		if len(table) == 1 {
			continue
		}
		w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
		for _, cells := range table {
			fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
		}
		_ = w.Flush() // a buffer takes everything
		fmt.Fprintln(&text)
	}
	return text.String()
}

// page is the documentation's.
func page() string { return filepath.Join(harness.Root(), "docs", "chaos.md") }

// write writes the tables to the documentation. Rows of faults that have not happened this time stay as they are, so that the
// page can be renewed a few tests at a time.
func (s *verdicts) write() error {
	old, err := os.ReadFile(page())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text := bytes.NewBufferString(introduction)
	for _, table := range s.tables() {
		fmt.Fprintf(text, "\n%s| --- |%s\n", line(table[0]), strings.Repeat(" ---: |", len(table[0])-1))
		for _, cells := range merged(rowsOf(string(old), table[0]), table[1:]) {
			text.WriteString(line(cells))
		}
	}
	return os.WriteFile(page(), text.Bytes(), 0o644) //nolint:gosec // a file of the repository, for everybody
}

// line is a row of a table in Markdown.
func line(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

// rowsOf returns the rows below a header in a page.
func rowsOf(page string, header []string) (rows [][]string) {
	_, table, _ := strings.Cut(page, line(header))
	for text := range strings.Lines(table) {
		if !strings.HasPrefix(text, "| ") {
			break
		}
		if cells := strings.Split(strings.Trim(text, "| \n"), " | "); cells[0] != "---" {
			rows = append(rows, cells)
		}
	}
	return rows
}

// merged puts fresh rows in the place of old ones of the same name, and the others behind.
func merged(old, fresh [][]string) [][]string {
	rows := slices.Clone(old)
	for _, row := range fresh {
		at := slices.IndexFunc(rows, func(known []string) bool { return known[0] == row[0] })
		if at < 0 {
			rows = append(rows, row)
		} else {
			rows[at] = row
		}
	}
	return rows
}
