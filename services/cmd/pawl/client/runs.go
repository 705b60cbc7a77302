package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/sdk"
	"pawl.internal/services/internal/apijson"
)

// Runs groups the commands about runs.
type Runs struct {
	Submit  submitRun  `cmd:"" help:"Start a run of a pipeline."`
	Get     getRun     `cmd:"" help:"Say how a run fares."`
	List    listRuns   `cmd:"" help:"List runs, newest first."`
	Watch   watchRun   `cmd:"" help:"Follow a run to its end."`
	Why     whyRun     `cmd:"" help:"Say why a run does not move, or has ended, and what can be done."`
	Cancel  cancelRun  `cmd:"" help:"Stop a run."`
	Retry   retryRun   `cmd:"" help:"Run the failed or reviewed steps of a run again, with the same data."`
	Promote promoteRun `cmd:"" help:"Move a run to another lane: one of a batch that somebody waits for."`
	Rerun   rerunRun   `cmd:"" help:"Run a step and all that depend on it again, asking anew."`
}

type submitRun struct {
	Connection
	Pipeline    string            `arg:"" help:"Name of a pipeline, or name:version."`
	Input       string            `arg:"" help:"File with the input as JSON; - for standard input." type:"path"`
	Key         string            `help:"Idempotency key: the same key never makes a second run. Default: a random one."`
	Entity      string            `help:"Your own id of the thing that is processed."`
	Batch       bool              `help:"Take the batch lane instead of the interactive one."`
	Label       map[string]string `help:"Labels, as name=value."`
	CallbackURL string            `help:"Where the result is sent." name:"callback-url"`
	Budget      string            `help:"The most that the run may cost, in US dollars." placeholder:"0.50"`
	Deadline    time.Duration     `help:"How long the run may take."`
	NotBefore   time.Time         `help:"The earliest time for its first step, such as 2026-12-24T18:00:00+01:00." format:"2006-01-02T15:04:05Z07:00"`
	Wait        bool              `help:"Follow the run to its end."`
}

// Run submits the run, and follows it if asked.
func (c *submitRun) Run(ctx context.Context, s Streams) error {
	input, err := readFile(c.Input)
	if err != nil {
		return fmt.Errorf("input: %w", err)
	}
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	created, err := client.CreateRun(ctx, c.request(input))
	if err != nil {
		return coded(err)
	}
	if c.Wait {
		return follow(ctx, client, s, created.GetRunId(), c.JSON)
	}
	if c.JSON {
		return printJSON(s.Out, created)
	}
	if created.GetReplayed() {
		fmt.Fprintln(s.Err, "the key had been used before; this is that earlier run")
	}
	fmt.Fprintln(s.Out, created.GetRunId())
	fmt.Fprintf(s.Err, "follow it with: pawl runs watch %s\n", created.GetRunId())
	return nil
}

func (c *submitRun) request(input []byte) *pawlv1.CreateRunRequest {
	request := &pawlv1.CreateRunRequest{
		Pipeline: c.Pipeline, Input: sdk.JSON(string(input)), EntityId: c.Entity, Labels: c.Label,
		CallbackUrl: c.CallbackURL, BudgetUsd: c.Budget, IdempotencyKey: c.Key, Class: pawlv1.RunClass_RUN_CLASS_INTERACTIVE,
	}
	if c.Batch {
		request.Class = pawlv1.RunClass_RUN_CLASS_BATCH
	}
	if c.Deadline > 0 {
		request.Deadline = durationpb.New(c.Deadline)
	}
	if !c.NotBefore.IsZero() {
		request.NotBefore = timestamppb.New(c.NotBefore)
	}
	return request
}

type getRun struct {
	Connection
	ID string `arg:"" help:"Id of the run."`
}

// Run prints the run.
func (c *getRun) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	got, err := client.GetRun(ctx, &pawlv1.GetRunRequest{RunId: c.ID})
	if err != nil {
		return coded(err)
	}
	if c.JSON {
		return printJSON(s.Out, got.GetRun())
	}
	return describe(s.Out, got.GetRun())
}

type watchRun struct {
	Connection
	ID string `arg:"" help:"Id of the run."`
}

// Run follows the run and exits with 0 only when it is done.
func (c *watchRun) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	return follow(ctx, client, s, c.ID, c.JSON)
}

type listRuns struct {
	Connection
	Status   string `help:"Only runs in this state: queued, running, needs_review, compensating, done, failed or cancelled."`
	Pipeline string `help:"Only runs of this pipeline."`
	Entity   string `help:"Only runs of this entity."`
	Limit    int32  `help:"At most this many." default:"20"`
}

// Run prints a table of runs.
func (c *listRuns) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	request := &pawlv1.ListRunsRequest{PageSize: c.Limit, Pipeline: c.Pipeline, EntityId: c.Entity}
	if c.Status != "" {
		if err := apijson.SetParameter(request, "status", []string{c.Status}); err != nil {
			return WithExitCode(err, ExitUsage)
		}
	}
	list, err := client.ListRuns(ctx, request)
	if err != nil {
		return coded(err)
	}
	if c.JSON {
		return printJSON(s.Out, list)
	}
	return tabulate(s.Out, list.GetRuns())
}

func (c Connection) show(s Streams, run *pawlv1.Run) error {
	if c.JSON {
		return printJSON(s.Out, run)
	}
	return describe(s.Out, run)
}

// follow shows the run's progress until it ends, then its result.
func follow(ctx context.Context, client *sdk.Client, s Streams, id string, asJSON bool) error {
	progress := NewProgress(s.Err)
	defer progress.End()
	var last *pawlv1.Run
	for run, err := range client.Watch(ctx, id) {
		if err != nil {
			if ctx.Err() != nil {
				return errors.New("not followed any more; the run itself goes on")
			}
			return coded(err)
		}
		last = run
		progress.Show(id, Line(run))
	}
	progress.End()
	return conclude(s.Out, last, asJSON)
}

// conclude prints how the run ended; an end without a result is an error.
func conclude(w io.Writer, run *pawlv1.Run, asJSON bool) error {
	var err error
	switch {
	case asJSON:
		err = printJSON(w, run)
	case run.GetStatus() == pawlv1.RunStatus_RUN_STATUS_DONE:
		_, err = fmt.Fprintln(w, run.GetResult().GetJson())
	default:
		err = describe(w, run)
	}
	if err == nil && run.GetStatus() != pawlv1.RunStatus_RUN_STATUS_DONE {
		return failure{fmt.Errorf("run %s is %s: %s", run.GetRunId(), apijson.WordOf(run.GetStatus()), run.GetReason()), ExitRunNotDone}
	}
	return err
}

func tabulate(w io.Writer, runs []*pawlv1.Run) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RUN\tPIPELINE\tSTATUS\tSTEP\tSTEPS\tCOST USD\tREASON\tWAITS FOR\tCREATED")
	for _, run := range runs {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d/%d\t%s\t%s\t%s\t%s\n",
			run.GetRunId(), run.GetPipeline(), apijson.WordOf(run.GetStatus()), run.GetCurrentStep(), run.GetStepsDone(),
			run.GetStepsTotal(), run.GetCostSoFarUsd(), run.GetReason(), run.GetBlockage().GetCode(),
			run.GetCreatedAt().AsTime().Format(time.RFC3339))
	}
	return table.Flush()
}
