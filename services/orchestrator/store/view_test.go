package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

func (b *bench) read(run uuid.UUID) (*store.RunView, []byte) {
	b.t.Helper()
	view, result, err := b.store.ReadRun(b.t.Context(), tenant, run)
	require.NoError(b.t, err)
	return view, result
}

// blockage returns the code of why a run does not move; empty if it does.
func (b *bench) blockage(run uuid.UUID) machine.BlockageCode {
	b.t.Helper()
	view, _ := b.read(run)
	if view.Blockage == nil {
		return ""
	}
	return view.Blockage.Code
}

func TestBlockageFollowsTheRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.register(spec{Name: "chain", Steps: []stepSpec{{Name: "a", Attempts: 3}, {Name: "b"}}})
	run := b.create("chain")
	require.Equal(t, machine.BlockDispatch, b.blockage(run))
	h := b.grant(b.next(run))
	b.employ(h.worker, time.Minute)
	require.Empty(t, b.blockage(run))
	b.employ(h.worker, -time.Minute)
	view, _ := b.read(run)
	require.Equal(t, machine.BlockWorkerLost, view.Blockage.Code)
	require.WithinDuration(t, time.Now().Add(-time.Minute), view.Blockage.Since, 5*time.Second)
	b.submit(&store.Event{Ref: h.Ref, Report: &store.Report{}, Make: func(r machine.Ref, _ time.Time) machine.Event {
		return machine.FailedTransient{
			Attempt: machine.Attempt{Claim: h.claim(r)}, Reason: machine.ReasonNetwork, RetryAfter: time.Minute,
		}
	}})
	view, result := b.read(run)
	require.Equal(t, machine.BlockRetryWait, view.Blockage.Code)
	require.WithinDuration(t, time.Now().Add(time.Minute), view.Blockage.ResolvesAt, 5*time.Second)
	require.Nil(t, result)
}

// The step that is nearest to moving says why a run does not, however many others there are.
func TestBlockageIsThatOfTheNearest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.register(spec{Name: "fan", Steps: []stepSpec{{Name: "parts", FanOut: true, Concurrency: 100, Attempts: 3}}})
	run, shards := b.fanned("fan", strings.Fields(strings.Repeat("1 ", 60))...)
	worker := shards[0].worker
	b.employ(worker, time.Minute)
	b.exec(`UPDATE core.step_live SET worker = $1 WHERE shard >= 0`, uuid.UUID(worker))
	b.exec(`UPDATE core.step_live SET status = 'backoff', due_at = now() + shard * interval '1 minute' WHERE shard >= 0`)
	view, _ := b.read(run)
	require.Equal(t, machine.BlockRetryWait, view.Blockage.Code)
	require.Zero(t, view.Blockage.Key.Shard)
	b.exec(`UPDATE core.step_live SET status = 'queued' WHERE shard = 58`)
	require.Equal(t, machine.BlockDispatch, b.blockage(run))
	b.exec(`UPDATE core.step_live SET status = 'running' WHERE shard = 59`)
	require.Empty(t, b.blockage(run))
}

// A run that moves while it is read never looks as if nothing could move it: head and steps are read as of one moment.
func TestReadersSeeOneMoment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chain("chain", 3)
	run := b.create("chain")
	ctx, stop := context.WithCancel(t.Context())
	watched := make(chan error, 1)
	go func() { watched <- b.watch(ctx, run) }()
	for range 30 {
		b.employ(machine.ID{1}, time.Minute)
		for range 3 {
			b.submit(b.succeed(b.grant(b.next(run)), `1`))
		}
		b.submit(&store.Event{Ref: store.OfRun(run), Make: func(r machine.Ref, _ time.Time) machine.Event {
			generation := 1 + b.count("core.step_history WHERE run_id = $1 AND step = 'a'", run)
			return machine.RerunFrom{Step: 0, Generation: generation}
		}})
	}
	stop()
	require.NoError(t, <-watched)
}

// watch reads the run until ctx ends, and returns what is wrong with what it sees.
func (b *bench) watch(ctx context.Context, run uuid.UUID) error {
	for ctx.Err() == nil {
		view, result, err := b.store.ReadRun(context.WithoutCancel(ctx), tenant, run)
		switch {
		case err != nil:
			return err
		case view.Blockage != nil && view.Blockage.Code == machine.BlockInternal:
			return errors.New("nothing could move the run")
		case view.Status == string(machine.RunDone) && string(result) != "1":
			return fmt.Errorf("the run is done with the result %s", result)
		}
		view, steps, err := b.store.ListSteps(context.WithoutCancel(ctx), tenant, run, allSteps())
		if err != nil {
			return err
		}
		for i, head := range view.Head.State.Heads {
			name := view.Plan.Steps[i].Name
			begun := slices.ContainsFunc(steps, func(s store.StepRow) bool { return s.Step == name })
			if begun == (head.Phase == machine.PhasePending) {
				return fmt.Errorf("step %s is %s", name, head.Phase)
			}
		}
	}
	return nil
}

// What does not fit into a message is left out, and the rest is shown.
func TestLargeOutputsAreLeftOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.register(spec{Name: "fan", Steps: []stepSpec{{Name: "parts", FanOut: true, Concurrency: 10}}})
	run, shards := b.fanned("fan", "1", "2", "3", "4", "5")
	large := `"` + strings.Repeat("x", 7<<20) + `"`
	for _, h := range shards {
		b.submit(b.succeed(h, large))
	}
	view, result := b.read(run)
	require.Equal(t, string(machine.RunDone), view.Status)
	require.Nil(t, result, "35 MiB")
	_, steps, err := b.store.ListSteps(t.Context(), tenant, run, allSteps())
	require.NoError(t, err)
	require.Len(t, steps, 6)
	require.Empty(t, steps[0].Document, "the fan-out's own")
	for i, step := range steps[1:] {
		if i < 2 {
			require.Equal(t, large, string(step.Document))
		} else {
			require.Nil(t, step.Document)
		}
	}
}

func TestRunsOfAPipelineThatCannotBeReadAreShown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chain("chain", 2)
	run := b.create("chain")
	b.exec(`UPDATE core.pipeline SET source = 'no pipeline'`)
	later := b.replica()
	view, _ := later.read(run)
	require.Equal(t, string(machine.RunQueued), view.Status)
	require.Nil(t, view.Plan)
	require.Nil(t, view.Blockage)
	_, steps, err := later.store.ListSteps(t.Context(), tenant, run, allSteps())
	require.NoError(t, err)
	require.Len(t, steps, 1)
}

// allSteps is a page that holds every step.
func allSteps() store.StepFilter {
	return store.StepFilter{AfterStep: -1, AfterShard: store.Whole, Most: 1000}
}
