package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/google/uuid"

	"pawl.internal/services/internal/checkup"
)

const (
	// shownRuns is how many run ids a report names, and shownDetails how many findings it tells.
	shownRuns    = 20
	shownDetails = 5
	// promiseWidth is how much of a promise the table shows; the reference has all of it.
	promiseWidth = 90
)

// report is a result as JSON.
type report struct {
	Check    string   `json:"check"`
	Promise  string   `json:"promise"`
	Severity string   `json:"severity"`
	Found    int      `json:"found"`
	More     bool     `json:"more,omitempty"`
	Runs     []string `json:"runs,omitempty"`
	MoreRuns int      `json:"more_runs,omitempty"`
	Details  []string `json:"details,omitempty"`
	Means    string   `json:"means,omitempty"`
	Remedy   string   `json:"remedy,omitempty"`
	Repaired int      `json:"repaired,omitempty"`
	Error    string   `json:"error,omitempty"`
}

func reportOf(r *checkup.Result) report {
	out := report{
		Check: r.Name, Promise: r.Promise, Severity: string(r.Severity), Found: len(r.Findings),
		More: len(r.Findings) >= checkup.Most, Repaired: r.Mended,
	}
	seen := map[uuid.UUID]bool{}
	for _, f := range r.Findings {
		if len(out.Details) < shownDetails {
			out.Details = append(out.Details, f.Detail)
		}
		if f.Run == uuid.Nil || seen[f.Run] {
			continue
		}
		seen[f.Run] = true
		if len(out.Runs) < shownRuns {
			out.Runs = append(out.Runs, f.Run.String())
		} else {
			out.MoreRuns++
		}
	}
	if out.Found > 0 {
		out.Means, out.Remedy = r.Means, r.Remedy
	}
	switch {
	case r.Err != nil:
		out.Error = r.Err.Error()
	case r.MendErr != nil:
		out.Error = "repair: " + r.MendErr.Error()
	}
	return out
}

// write writes what was found: as a table with all checks, and below it what is to be said of each finding.
func write(w io.Writer, results []*checkup.Result, asJSON bool) error {
	reports := make([]report, len(results))
	for i, r := range results {
		reports[i] = reportOf(r)
	}
	if asJSON {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(map[string][]report{"checks": reports})
	}
	if err := writeTable(w, reports); err != nil {
		return err
	}
	for i := range reports {
		if line := reports[i].line(); line != "" {
			fmt.Fprintf(w, "\n%s\n", line)
		}
	}
	return nil
}

func writeTable(w io.Writer, reports []report) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CHECK\tFOUND\tPROMISE\tDETAIL")
	for _, r := range reports {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", r.Check, r.count(), short(r.Promise), r.first())
	}
	return table.Flush()
}

// count says how much was found.
func (r *report) count() string {
	switch {
	case r.Error != "" && r.Found == 0:
		return "unknown"
	case r.Found == 0:
		return "-"
	case r.More:
		return fmt.Sprintf("%d+ %s", r.Found, r.Severity)
	default:
		return fmt.Sprintf("%d %s", r.Found, r.Severity)
	}
}

// first is one finding in words.
func (r *report) first() string {
	switch {
	case len(r.Details) > 0:
		return r.Details[0]
	default:
		return r.Error
	}
}

// line says what is wrong, with which runs, what it means and what to do.
func (r *report) line() string {
	if r.Found == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s): %s", r.Check, r.Severity, strings.Join(r.Details, "; "))
	if rest := r.Found - len(r.Details); rest > 0 {
		fmt.Fprintf(&b, "; and %d more", rest)
	}
	if len(r.Runs) > 0 {
		fmt.Fprintf(&b, ". Runs: %s", strings.Join(r.Runs, " "))
		if r.MoreRuns > 0 {
			fmt.Fprintf(&b, " and %d more", r.MoreRuns)
		}
	}
	fmt.Fprintf(&b, ". Promise: %s. It means: %s. To do: %s.", r.Promise, r.Means, r.Remedy)
	if r.Repaired > 0 {
		fmt.Fprintf(&b, " Repaired: %d.", r.Repaired)
	}
	if r.Error != "" {
		fmt.Fprintf(&b, " Error: %s.", r.Error)
	}
	return b.String()
}

func short(promise string) string {
	text := []rune(promise)
	if len(text) <= promiseWidth {
		return promise
	}
	return string(text[:promiseWidth-1]) + "…"
}
