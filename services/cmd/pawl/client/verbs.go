package client

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/sdk"
)

// decision is what the commands that decide about a run have in common.
type decision struct {
	Connection
	ID   string `arg:"" help:"Id of the run."`
	Etag string `help:"Only if the run still has this etag (see 'pawl runs get --json'). Default: as it is when the command begins."`
}

// take reads the run's etag, unless one is given, and decides under it: whatever comes in between is a conflict, and when the
// answer is lost the command can be repeated.
func (d *decision) take(ctx context.Context, s Streams, decide func(*sdk.Client, string) (*pawlv1.Run, error)) error {
	client, err := d.open()
	if err != nil {
		return err
	}
	defer client.Close()
	etag := d.Etag
	if etag == "" {
		seen, err := client.GetRun(ctx, &pawlv1.GetRunRequest{RunId: d.ID})
		if err != nil {
			return coded(err)
		}
		etag = seen.GetRun().GetEtag()
	}
	run, err := decide(client, etag)
	if err != nil {
		return coded(err)
	}
	if !d.JSON {
		fmt.Fprintf(s.Err, "follow it with: pawl runs watch %s\n", d.ID)
	}
	return d.show(s, run)
}

type cancelRun struct {
	Connection
	ID     string `arg:"" help:"Id of the run."`
	Reason string `help:"Why, for the journal."`
	Undo   *bool  `help:"Undo outside effects, or leave them with --no-undo. Default: as the pipeline says." negatable:""`
	Etag   string `help:"Only if the run still has this etag. Default: however it is."`
}

// Run stops the run, in whatever state it is.
func (c *cancelRun) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	cancelled, err := client.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: c.ID, Reason: c.Reason, Undo: c.Undo, Etag: c.Etag})
	if err != nil {
		return coded(err)
	}
	return c.show(s, cancelled.GetRun())
}

type retryRun struct {
	decision
	Reason string `help:"Why, for the journal." required:""`
	Step   string `help:"Only this step, which waits for a person."`
	Shard  int32  `help:"Only this shard of the step." default:"-1"`
	Budget string `help:"A new, higher budget in US dollars; what is spent counts." placeholder:"0.50"`
}

// Run runs the failed or reviewed steps again.
func (c *retryRun) Run(ctx context.Context, s Streams) error {
	return c.take(ctx, s, func(client *sdk.Client, etag string) (*pawlv1.Run, error) {
		request := &pawlv1.RetryRunRequest{RunId: c.ID, Reason: c.Reason, Step: c.Step, BudgetUsd: c.Budget, Etag: etag}
		if c.Shard >= 0 {
			request.Shard = proto.Int32(c.Shard)
		}
		retried, err := client.RetryRun(ctx, request)
		return retried.GetRun(), err
	})
}

type rerunRun struct {
	decision
	From        string `help:"The step that is run again, with all that depend on it." required:"" placeholder:"STEP"`
	Reason      string `help:"Why, for the journal." required:""`
	KeepEffects bool   `help:"Leave the outside effects of these steps in place instead of undoing them first."`
}

// Run runs the step, and all that depend on it, again.
func (c *rerunRun) Run(ctx context.Context, s Streams) error {
	return c.take(ctx, s, func(client *sdk.Client, etag string) (*pawlv1.Run, error) {
		again, err := client.RerunRun(ctx, &pawlv1.RerunRunRequest{
			RunId: c.ID, FromStep: c.From, Reason: c.Reason, KeepEffects: c.KeepEffects, Etag: etag,
		})
		return again.GetRun(), err
	})
}

type promoteRun struct {
	Connection
	ID     string `arg:"" help:"Id of the run."`
	Class  string `help:"The lane in which it goes on: interactive or batch." enum:"interactive,batch" default:"interactive"`
	Reason string `help:"Why, for the journal."`
	Etag   string `help:"Only if the run still has this etag. Default: however it is."`
}

// Run moves the run to the lane.
func (c *promoteRun) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	class := pawlv1.RunClass_RUN_CLASS_INTERACTIVE
	if c.Class == "batch" {
		class = pawlv1.RunClass_RUN_CLASS_BATCH
	}
	promoted, err := client.PromoteRun(ctx, &pawlv1.PromoteRunRequest{RunId: c.ID, Class: class, Reason: c.Reason, Etag: c.Etag})
	if err != nil {
		return coded(err)
	}
	return c.show(s, promoted.GetRun())
}
