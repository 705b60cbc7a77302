package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
)

func (w *world) blockage(facts machine.Facts) (machine.Blockage, bool) {
	return w.run.Blockage(w.plan, w.rows(), w.now, facts)
}

func TestWhyARunDoesNotMove(t *testing.T) {
	t.Parallel()
	key := machine.Key{Step: 0, Shard: whole}
	for name, c := range map[string]struct {
		arrange  func(w *world) machine.Facts
		code     machine.BlockageCode
		sentence string
		resolves func(w *world) time.Time
		then     string
	}{
		"retry_wait": {
			func(w *world) machine.Facts {
				w.must(machine.FailedTransient{Attempt: w.start(0, whole), Reason: machine.ReasonProvider429})
				return machine.Facts{}
			},
			machine.BlockRetryWait, "a failed in passing (provider_429) and is tried again.",
			func(w *world) time.Time { return w.live[key].DueAt }, "the step runs again",
		},
		"provider_paused": {
			func(w *world) machine.Facts {
				held := w.start(0, whole)
				w.must(machine.Parked{Attempt: held, Until: w.now.Add(time.Minute), Reason: machine.ReasonProvider429})
				return machine.Facts{}
			},
			machine.BlockProviderPaused, "a waits until the other side takes requests again (provider_429).",
			func(w *world) time.Time { return w.live[key].DueAt }, "the step runs again",
		},
		"in a batch of the provider's": {
			func(w *world) machine.Facts {
				held := w.start(0, whole)
				w.must(machine.Parked{Attempt: held, Until: w.now.Add(time.Minute), Reason: machine.ReasonProviderBatch})
				return machine.Facts{}
			},
			machine.BlockProviderPaused, "a is asked in a batch of the provider's and waits for its answer (provider_batch).",
			func(w *world) time.Time { return w.live[key].DueAt }, "the step looks again",
		},
		"worker_lost, apart": {
			func(w *world) machine.Facts {
				held := w.start(0, whole)
				w.must(machine.Parked{Attempt: held, Until: w.now.Add(time.Second), Reason: machine.ReasonWorkerLost})
				return machine.Facts{}
			},
			machine.BlockWorkerLost, "a has lost its workers 0 times and waits to be executed apart from other such steps.",
			func(w *world) time.Time { return w.live[key].DueAt }, "the step runs again",
		},
		"signal": {
			func(w *world) machine.Facts {
				held := w.start(0, whole)
				w.must(machine.Parked{Attempt: held, Until: w.now.Add(time.Minute)})
				return machine.Facts{}
			},
			machine.BlockSignal, "a waits.",
			func(w *world) time.Time { return w.live[key].DueAt }, "the step looks whether it can go on",
		},
		"not_before": {
			func(w *world) machine.Facts {
				*w = *newWorld(w.t, w.plan)
				w.run = *machine.NewRun(w.plan, machine.Batch, w.now, w.now.Add(time.Hour), 0)
				w.must(machine.Created{})
				return machine.Facts{}
			},
			machine.BlockNotBefore, "The run was asked to begin later.",
			func(w *world) time.Time { return w.run.NotBefore }, "the run begins",
		},
		"dispatch": {
			func(*world) machine.Facts { return machine.Facts{} },
			machine.BlockDispatch, "a is ready and waits for a free worker.",
			func(w *world) time.Time { return w.run.DeadlineAt }, "the run ends: deadline_exceeded",
		},
		"paused": {
			func(w *world) machine.Facts { w.must(machine.Paused{}); return machine.Facts{} },
			machine.BlockPaused, "a is ready; the batch or pipeline is paused.",
			func(w *world) time.Time { return w.run.DeadlineAt }, "the run ends: deadline_exceeded",
		},
		"permit_wait": {
			func(w *world) machine.Facts {
				w.start(0, whole)
				return machine.Facts{PermitWaits: map[machine.Key]machine.PermitWait{key: {Limit: "openai/gpt", Since: w.now}}}
			},
			machine.BlockPermitWait, "a waits for a permit of the limit openai/gpt.",
			func(w *world) time.Time { return w.run.DeadlineAt }, "the run ends: deadline_exceeded",
		},
		"worker_lost": {
			func(w *world) machine.Facts {
				w.start(0, whole)
				return machine.Facts{LostWorkers: map[machine.ID]time.Time{{7}: w.now}}
			},
			machine.BlockWorkerLost, "The worker that executed a was lost.",
			func(w *world) time.Time { return w.run.DeadlineAt }, "the run ends: deadline_exceeded",
		},
		"deadline, not ended yet": {
			func(w *world) machine.Facts { w.now = w.run.DeadlineAt; return machine.Facts{} },
			machine.BlockDeadline, "The run's deadline has passed.",
			func(w *world) time.Time { return w.run.DeadlineAt }, "the run ends: deadline_exceeded",
		},
		"deadline, an effect is awaited": {
			func(w *world) machine.Facts {
				w.plan.Steps[0].Effect = true
				w.start(0, whole)
				w.now = w.run.DeadlineAt
				w.must(machine.DeadlinePassed{})
				return machine.Facts{}
			},
			machine.BlockDeadline, "The run is ending (deadline_exceeded) and waits for the outside effect of a.",
			func(w *world) time.Time { return w.live[key].DueAt }, "a person decides about the effect",
		},
		"review": {
			func(w *world) machine.Facts {
				w.must(machine.ReviewRequested{Attempt: w.start(0, whole), Reason: machine.ReasonLowConfidence})
				return machine.Facts{}
			},
			machine.BlockReview, "a waits for a person (low_confidence).", func(*world) time.Time { return time.Time{} }, "",
		},
		"budget": {
			func(w *world) machine.Facts {
				w.plan.Steps[0].OnError = machine.ReviewFailure
				w.must(machine.BudgetExceeded{Attempt: w.start(0, whole)})
				return machine.Facts{}
			},
			machine.BlockBudget, "a waits for a person (budget_exceeded).", func(*world) time.Time { return time.Time{} }, "",
		},
		"internal": {
			func(w *world) machine.Facts { clear(w.live); return machine.Facts{} },
			machine.BlockInternal, "Nothing is left that could move the run: this is a fault of the system.",
			func(*world) time.Time { return time.Time{} }, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := created(t, chain(usual(), usual()))
			facts := c.arrange(w)
			b, blocked := w.blockage(facts)
			require.True(t, blocked)
			require.Equal(t, c.code, b.Code)
			require.Equal(t, c.sentence, b.Sentence)
			require.Equal(t, c.resolves(w), b.ResolvesAt)
			require.Equal(t, c.then, b.Then)
			require.NotEmpty(t, b.Action)
			require.False(t, b.Since.IsZero())
		})
	}
}

func TestAFailedUndoIsABlockageOfItsOwn(t *testing.T) {
	t.Parallel()
	b, blocked := undoFailed(t).blockage(machine.Facts{})
	require.True(t, blocked)
	require.Equal(t, machine.BlockUndoFailed, b.Code)
}

func TestARunThatMovesHasNoBlockage(t *testing.T) {
	t.Parallel()
	plan := chain(usual(), usual())
	plan.Steps[1].Needs = nil
	w := created(t, plan)
	w.must(machine.FailedTransient{Attempt: w.start(0, whole), Reason: machine.ReasonNetwork})
	w.start(1, whole)
	_, blocked := w.blockage(machine.Facts{})
	require.False(t, blocked, "another step is running")
	w.must(machine.CancelRequested{})
	_, blocked = w.blockage(machine.Facts{})
	require.False(t, blocked, "it has ended")
}

func TestTheStepNearestToMovingTellsTheBlockage(t *testing.T) {
	t.Parallel()
	w := expanded(t, fanOut(3, machine.FailRun), 3)
	w.must(machine.FailedTransient{Attempt: w.start(0, 0), Reason: machine.ReasonNetwork, RetryAfter: 30 * time.Second})
	w.must(machine.FailedTransient{Attempt: w.start(0, 1), Reason: machine.ReasonProvider503})
	held := w.start(0, 2)
	w.must(machine.Parked{Attempt: held, Until: w.now.Add(time.Second)})
	b, _ := w.blockage(machine.Facts{})
	require.Equal(t, machine.BlockRetryWait, b.Code)
	require.Equal(t, machine.Key{Step: 0, Shard: 1}, b.Key, "the earlier retry")
	require.Contains(t, b.Sentence, "a[1] failed")
}
