package client

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/sdk"
	"pawl.internal/services/internal/apijson"
)

type whyRun struct {
	Connection
	ID string `arg:"" help:"Id of the run."`
}

// Run says why the run does not move, or why it has ended, and what can be done.
func (c *whyRun) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	got, err := client.GetRun(ctx, &pawlv1.GetRunRequest{RunId: c.ID})
	if err != nil {
		return coded(err)
	}
	run := got.GetRun()
	if c.JSON {
		if run.GetBlockage() == nil {
			return printJSON(s.Out, run)
		}
		return printJSON(s.Out, run.GetBlockage())
	}
	waiting, err := stepsIn(ctx, client, c.ID, pawlv1.StepStatus_STEP_STATUS_NEEDS_REVIEW, pawlv1.StepStatus_STEP_STATUS_FAILED)
	if err != nil {
		return coded(err)
	}
	return explain(s.Out, run, waiting)
}

// stepsIn returns the run's steps and shards that are in one of the states.
func stepsIn(ctx context.Context, client *sdk.Client, run string, states ...pawlv1.StepStatus) (found []*pawlv1.RunStep, err error) {
	request := &pawlv1.ListRunStepsRequest{RunId: run, PageSize: 1000}
	for more := true; more; {
		page, err := client.ListRunSteps(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, step := range page.GetSteps() {
			for _, state := range states {
				if step.GetStatus() == state {
					found = append(found, step)
				}
			}
		}
		request.PageToken, more = page.GetNextPageToken(), page.GetNextPageToken() != ""
	}
	return found, nil
}

// explain prints why a run is where it is.
func explain(w io.Writer, run *pawlv1.Run, open []*pawlv1.RunStep) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, value)
		}
	}
	row("run", run.GetRunId())
	row("status", apijson.WordOf(run.GetStatus()))
	switch {
	case run.GetBlockage() != nil:
		rowsOfBlockage(row, run.GetBlockage())
	case run.GetFinishedAt() == nil:
		row("why", "Nothing stands in its way: a worker executes "+run.GetCurrentStep()+".")
	default:
		row("why", endOf(run))
		row("since", run.GetFinishedAt().AsTime().Format(time.RFC3339))
	}
	for _, step := range open {
		row(apijson.WordOf(step.GetStatus()), fmt.Sprintf("%s: %s: %s", nameOf(step), step.GetReason(), step.GetError()))
	}
	for _, command := range remedies(run) {
		row("command", command)
	}
	return table.Flush()
}

// rowsOfBlockage says all that is known of why a run does not move.
func rowsOfBlockage(row func(name, value string), b *pawlv1.Blockage) {
	row("why", b.GetSentence())
	row("code", b.GetCode())
	row("step", b.GetStep())
	if b.GetSince() != nil {
		row("since", b.GetSince().AsTime().Format(time.RFC3339))
	}
	for _, fact := range b.GetEvidence() {
		row("evidence", fact)
	}
	row("by itself", b.GetThen())
	if b.GetAutoResolvesAt() != nil {
		row("at", b.GetAutoResolvesAt().AsTime().Format(time.RFC3339))
	}
	row("you may", b.GetSuggestedAction())
}

func nameOf(step *pawlv1.RunStep) string {
	if step.Shard == nil {
		return step.GetName()
	}
	return fmt.Sprintf("%s[%d]", step.GetName(), step.GetShard())
}

// endOf says why a run has ended.
func endOf(run *pawlv1.Run) string {
	if run.GetStatus() == pawlv1.RunStatus_RUN_STATUS_DONE {
		return "It is done: every step has finished."
	}
	if run.GetError() == "" {
		return run.GetReason()
	}
	return run.GetReason() + ": " + run.GetError()
}

// remedies are the commands that fit the run's state.
func remedies(run *pawlv1.Run) []string {
	const outOfMoney = "budget_exceeded"
	retry := fmt.Sprintf("pawl runs retry %s --reason '…'", run.GetRunId())
	if run.GetReason() == outOfMoney && run.BudgetUsd != nil { // without one it was the tenant's, which 'pawl budget set' raises
		retry += " --budget USD (more than " + run.GetBudgetUsd() + ")"
	}
	rerun := fmt.Sprintf("pawl runs rerun %s --from STEP --reason '…'", run.GetRunId())
	cancel := "pawl runs cancel " + run.GetRunId()
	switch run.GetStatus() {
	case pawlv1.RunStatus_RUN_STATUS_FAILED:
		return []string{retry, rerun}
	case pawlv1.RunStatus_RUN_STATUS_NEEDS_REVIEW:
		return []string{retry, rerun, cancel}
	case pawlv1.RunStatus_RUN_STATUS_DONE, pawlv1.RunStatus_RUN_STATUS_CANCELLED:
		return []string{rerun}
	default:
		return []string{cancel}
	}
}
