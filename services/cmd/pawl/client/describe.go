package client

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/apijson"
)

// Line says in one line how a run fares.
func Line(run *pawlv1.Run) string {
	text := fmt.Sprintf("%-12s %d/%d steps", apijson.WordOf(run.GetStatus()), run.GetStepsDone(), run.GetStepsTotal())
	if step := run.GetCurrentStep(); step != "" {
		text += "  " + step
	}
	if shards := run.GetShards(); shards != nil {
		text += fmt.Sprintf(" %d/%d", shards.GetDone(), shards.GetTotal())
	}
	text += "  $" + run.GetCostSoFarUsd()
	if blockage := run.GetBlockage(); blockage != nil {
		text += "  " + blockage.GetSentence()
	}
	return text
}

// describe prints a run for people.
func describe(w io.Writer, run *pawlv1.Run) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, value)
		}
	}
	row("run", run.GetRunId())
	row("pipeline", run.GetPipeline())
	row("status", Line(run))
	row("reason", run.GetReason())
	row("error", run.GetError())
	row("entity", run.GetEntityId())
	row("created", run.GetCreatedAt().AsTime().Format(time.RFC3339))
	if run.GetFinishedAt() != nil {
		row("took", run.GetFinishedAt().AsTime().Sub(run.GetCreatedAt().AsTime()).Round(time.Millisecond).String())
	}
	row("budget", run.GetBudgetUsd())
	row("etag", run.GetEtag())
	if blockage := run.GetBlockage(); blockage != nil {
		rowsOfBlockage(row, blockage)
	}
	row("result", run.GetResult().GetJson())
	return table.Flush()
}
