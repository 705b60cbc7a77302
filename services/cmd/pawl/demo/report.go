package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/money"
)

// fieldNames are the fields that are shown, in this order.
func fieldNames() []string {
	return []string{
		"contract_number", "contract_date", "party_a", "party_b", "subject", "amount", "currency", "payment_term_days",
		"valid_until", "governing_law",
	}
}

// report prints what was extracted from each contract, how it compares with the truth, and what it all cost. It returns an
// error when a contract has no result.
func report(w io.Writer, files []string, runs []*pawlv1.Run, took time.Duration) error {
	var total money.Pico
	var problems []error
	right, all, done := 0, 0, 0
	for i, run := range runs {
		cost, err := money.Parse(run.GetCostSoFarUsd())
		if err != nil {
			return fmt.Errorf("cost of run %s: %w", run.GetRunId(), err)
		}
		if total, err = total.Add(cost); err != nil {
			return err
		}
		if run.GetStatus() != pawlv1.RunStatus_RUN_STATUS_DONE {
			problems = append(problems, fmt.Errorf("%s: run %s has no result: %s: %s",
				files[i], run.GetRunId(), run.GetReason(), run.GetError()))
			continue
		}
		done++
		r, a, err := compare(w, files[i], run)
		if err != nil {
			return err
		}
		right, all = right+r, all+a
	}
	fmt.Fprintf(w, "\n%d of %d documents done; %d of %d fields as in the true answers; $%s in all; %s\n",
		done, len(runs), right, all, total, took.Round(time.Millisecond))
	return errors.Join(problems...)
}

// compare prints the fields of one contract and counts those that are right.
func compare(w io.Writer, file string, run *pawlv1.Run) (right, all int, err error) {
	var result struct {
		Fields  map[string]any `json:"fields"`
		Summary string         `json:"summary"`
	}
	if err := json.Unmarshal([]byte(run.GetResult().GetJson()), &result); err != nil {
		return 0, 0, fmt.Errorf("result of run %s: %w", run.GetRunId(), err)
	}
	truth, err := truthOf(file)
	if err != nil {
		return 0, 0, err
	}
	fmt.Fprintf(w, "\n%s  run %s  $%s\n", filepath.Base(file), run.GetRunId(), run.GetCostSoFarUsd())
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, name := range fieldNames() {
		want, known := truth[name]
		if !known {
			continue
		}
		all++
		note := "ok"
		if reflect.DeepEqual(want, result.Fields[name]) {
			right++
		} else {
			note = fmt.Sprintf("expected %s", show(want))
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\n", name, show(result.Fields[name]), note)
	}
	if err := table.Flush(); err != nil {
		return 0, 0, err
	}
	_, err = fmt.Fprintf(w, "  %s\n", result.Summary)
	return right, all, err
}

// truthOf reads the true answers beside a contract.
func truthOf(file string) (map[string]any, error) {
	path := strings.TrimSuffix(file, filepath.Ext(file)) + ".truth.json"
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("true answers: %w", err)
	}
	var truth map[string]any
	if err := json.Unmarshal(text, &truth); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return truth, nil
}

// show is a JSON value as a table shows it.
func show(value any) string {
	switch v := value.(type) {
	case nil:
		return "-"
	case string:
		return v
	case float64:
		return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.6f", v), "0"), ".")
	default:
		return fmt.Sprint(v)
	}
}
