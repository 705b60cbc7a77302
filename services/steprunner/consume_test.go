package steprunner_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/stream"
	"pawl.internal/services/steprunner"
)

const (
	interactive = pawlv1.RunClass_RUN_CLASS_INTERACTIVE
	batch       = pawlv1.RunClass_RUN_CLASS_BATCH
)

const double = `
  - {name: it, transform: {twice: "${input.n * 2}"}}
`

const ask = `
  - {name: it, llm: {prompt: "say ${input.n}"}}
`

func away() error { return fault.Unavailable(nil, "away") }

func TestEntryIsDeletedOnlyWhenTheOutcomeIsStored(t *testing.T) {
	t.Parallel()
	w := start(t)
	asked, held := make(chan struct{}), make(chan struct{})
	store := sync.OnceFunc(func() { close(held) })
	defer store()
	w.orchestrator.set(func(o *orchestrator) {
		o.onComplete = func(*systemv1.CompleteStepsRequest) error {
			close(asked)
			<-held
			return nil
		}
	})
	ref := w.submit(given{digest: w.pipeline(double), input: `{"n":21}`})
	<-asked
	w.announce(interactive, &systemv1.StepRef{RunId: ref.GetRunId(), Step: "nothing", Shard: -1})
	var left []redis.XMessage
	w.eventually(func() (err error) { // what is deleted goes in order: with this one, all before it
		left, err = w.keys.Client.XRange(t.Context(), w.keys.Prefix+":{steps}:interactive", "-", "+").Result()
		if err == nil && (len(left) != 1 || see(w.orchestrator, func(o *orchestrator) int { return len(o.claims) }) < 2) {
			err = fmt.Errorf("%d entries are left", len(left))
		}
		return err
	})
	require.Equal(t, ref.GetStep(), left[0].Values["step"], "the outcome is not stored yet")
	store()
	require.JSONEq(t, `{"twice":42}`, string(w.outcome(ref).GetSucceeded().GetOutput()))
	w.clean(interactive)
	require.Zero(t, w.pending(interactive))
}

func TestStepThatIsAnnouncedTwiceIsExecutedOnce(t *testing.T) {
	t.Parallel()
	w := start(t)
	finish := make(chan struct{})
	w.gateway.set(func(_ context.Context, _ *systemv1.GenerateRequest, say func(*systemv1.GenerateResponse)) error {
		<-finish
		say(text("done"))
		return nil
	})
	ref := w.add(given{digest: w.pipeline(ask), shard: -1, input: `{"n":1}`})
	w.announce(interactive, ref, ref)
	w.eventually(func() error {
		if n := w.pending(interactive); n != 1 {
			return fmt.Errorf("%d entries are pending", n)
		}
		if n := len(w.gateway.asked()); n != 1 {
			return fmt.Errorf("%d questions", n)
		}
		return nil
	})
	close(finish)
	w.outcome(ref)
	w.announce(interactive, ref) // and once more when it is finished
	w.clean(interactive)
	require.Len(t, w.gateway.asked(), 1)
}

func TestLostAnswerToAClaimIsAskedForUnderTheSameFence(t *testing.T) {
	t.Parallel()
	w := start(t)
	lost := 0
	w.orchestrator.set(func(o *orchestrator) {
		o.onClaim = func(*systemv1.ClaimStepsRequest) error {
			if lost++; lost <= 7 { // more than gRPC repeats by itself
				return away()
			}
			return nil
		}
	})
	ref := w.submit(given{digest: w.pipeline(double), input: `{"n":1}`})
	require.NotNil(t, w.outcome(ref).GetSucceeded())
	claims := see(w.orchestrator, func(o *orchestrator) []*systemv1.ClaimStepsRequest { return o.claims })
	require.Len(t, claims, 8)
	for _, c := range claims {
		require.True(t, proto.Equal(claims[0], c), "the same question every time")
	}
	w.clean(interactive)
}

func TestOutcomeIsRepeatedAsItIsUntilItIsStored(t *testing.T) {
	t.Parallel()
	w := start(t)
	lost := 0
	w.orchestrator.set(func(o *orchestrator) {
		o.onComplete = func(*systemv1.CompleteStepsRequest) error {
			if lost++; lost <= 7 {
				return away()
			}
			return nil
		}
	})
	ref := w.submit(given{digest: w.pipeline(ask), input: `{"n":1}`})
	w.outcome(ref)
	completed := see(w.orchestrator, func(o *orchestrator) []*systemv1.CompleteStepsRequest { return o.completed })
	require.Len(t, completed, 8)
	for _, c := range completed {
		require.True(t, proto.Equal(completed[0], c))
	}
	require.Len(t, w.gateway.asked(), 1, "repeating an outcome is not a new attempt")
	w.clean(interactive)
}

func TestSlotsAreNeverExceededAndNothingIsHoarded(t *testing.T) {
	t.Parallel()
	const slots, steps = 3, 20
	w := start(t, with(func(c *steprunner.Config) { c.BatchSlots = slots }))
	next := make(chan struct{})
	w.gateway.set(func(_ context.Context, _ *systemv1.GenerateRequest, say func(*systemv1.GenerateResponse)) error {
		<-next
		say(text("done"))
		return nil
	})
	digest := w.pipeline(ask)
	refs := make([]*systemv1.StepRef, steps)
	for i := range refs {
		refs[i] = w.add(given{digest: digest, shard: -1, class: batch, input: `{"n":1}`})
	}
	w.announce(batch, refs...)
	for done := range steps {
		want := min(steps, done+slots)
		w.eventually(func() error {
			if n := len(w.gateway.asked()); n < want {
				return fmt.Errorf("%d of %d steps have begun", n, want)
			}
			return nil
		})
		require.LessOrEqual(t, w.pending(batch), int64(slots), "more entries are taken than there are slots")
		next <- struct{}{}
	}
	for _, ref := range refs {
		w.outcome(ref)
	}
	require.Equal(t, slots, w.gateway.most)
	w.clean(batch)
}

func TestBatchDoesNotTakeInteractiveSlots(t *testing.T) {
	t.Parallel()
	w := start(t, with(func(c *steprunner.Config) { c.BatchSlots, c.InteractiveSlots = 2, 1 }))
	w.gateway.set(silent)
	asking, computing := w.pipeline(ask), w.pipeline(double)
	for range 5 {
		w.submit(given{digest: asking, class: batch, input: `{"n":1}`})
	}
	w.eventually(func() error {
		if n := len(w.gateway.asked()); n != 2 {
			return fmt.Errorf("%d batch steps have begun", n)
		}
		return nil
	})
	for range 3 {
		w.outcome(w.submit(given{digest: computing, input: `{"n":1}`}))
	}
	require.Len(t, w.gateway.asked(), 2)
}

func TestStepsThatAreNotOursAreDropped(t *testing.T) {
	t.Parallel()
	w := start(t)
	digest := w.pipeline(double)
	held := w.add(given{digest: digest, shard: -1, input: `{"n":1}`})
	w.orchestrator.set(func(o *orchestrator) { o.fences[keyOf(held)] = "another" })
	gone := &systemv1.StepRef{RunId: held.GetRunId(), Step: "nothing", Shard: -1}
	w.announce(interactive, held, gone)
	w.clean(interactive)
	require.Empty(t, see(w.orchestrator, func(o *orchestrator) []*systemv1.CompleteStepsRequest { return o.completed }))
}

func TestEntriesThatNameNoStepAreDropped(t *testing.T) {
	t.Parallel()
	w := start(t, with(func(c *steprunner.Config) { c.InteractiveSlots = 1 }))
	good := w.add(given{digest: w.pipeline(double), shard: -1, input: `{"n":1}`})
	entries := []stream.Fields{{"run": "x"}}
	for _, name := range []string{"run", "step", "shard", "generation"} {
		fields := fieldsOf(good)
		fields[name] = ""
		entries = append(entries, fields)
	}
	require.NoError(t, w.stream(interactive).Publish(t.Context(), append(entries, fieldsOf(good))))
	w.outcome(good)
	w.clean(interactive)
}

func TestClaimsThatTheOrchestratorRefusesAreDropped(t *testing.T) {
	t.Parallel()
	w := start(t, with(func(c *steprunner.Config) { c.InteractiveSlots = 2 }))
	digest := w.pipeline(double)
	good := w.add(given{digest: digest, shard: -1, input: `{"n":1}`})
	bad := w.add(given{digest: digest, shard: -1, step: "bad", input: `{"n":1}`})
	w.orchestrator.set(func(o *orchestrator) {
		o.onClaim = func(req *systemv1.ClaimStepsRequest) error {
			for _, c := range req.GetClaims() {
				if c.GetStep().GetStep() == "bad" {
					return errors.New("broken")
				}
			}
			return nil
		}
	})
	w.announce(interactive, bad, good)
	w.outcome(good)
	w.clean(interactive)
}

func TestClaimsWaitForALeaseThatHasRunOut(t *testing.T) {
	t.Parallel()
	w := start(t)
	refused := 0
	w.orchestrator.set(func(o *orchestrator) {
		o.onClaim = func(*systemv1.ClaimStepsRequest) error {
			if refused++; refused <= 3 {
				return fault.New(faultv1.ErrorReason_ERROR_REASON_STALE_FENCE, "no lease")
			}
			return nil
		}
	})
	digest := w.pipeline(double)
	refs := []*systemv1.StepRef{
		w.add(given{digest: digest, shard: -1, input: `{"n":1}`}), w.add(given{digest: digest, shard: -1, input: `{"n":1}`}),
	}
	w.announce(interactive, refs...)
	for _, ref := range refs {
		w.outcome(ref)
	}
	w.clean(interactive)
}

func TestAssignmentThatDidNotFitIsAskedForAgain(t *testing.T) {
	t.Parallel()
	w := start(t)
	again := &systemv1.ClaimResult{Status: systemv1.ClaimStatus_CLAIM_STATUS_AGAIN}
	w.orchestrator.set(func(o *orchestrator) { o.answer = []*systemv1.ClaimResult{again, again} })
	ref := w.submit(given{digest: w.pipeline(double), input: `{"n":1}`})
	w.outcome(ref)
	claims := see(w.orchestrator, func(o *orchestrator) []*systemv1.ClaimStepsRequest { return o.claims })
	require.Len(t, claims, 3)
	require.True(t, proto.Equal(claims[0], claims[2]))
}

func TestClaimsAndOutcomesTravelInGroups(t *testing.T) {
	t.Parallel()
	const steps = 200
	w := start(t, with(func(c *steprunner.Config) { c.BatchSlots = steps }))
	first, release := make(chan struct{}, 1), make(chan struct{})
	w.orchestrator.set(func(o *orchestrator) {
		o.onComplete = func(*systemv1.CompleteStepsRequest) error {
			select {
			case first <- struct{}{}:
				<-release
			default:
			}
			return nil
		}
	})
	digest := w.pipeline(double)
	refs := make([]*systemv1.StepRef, steps)
	for i := range refs {
		refs[i] = w.add(given{digest: digest, shard: -1, class: batch, input: `{"n":1}`})
	}
	w.announce(batch, refs...)
	w.eventually(func() error {
		if n := see(w.orchestrator, func(o *orchestrator) int { return len(o.fences) }); n < steps {
			return fmt.Errorf("%d steps are claimed", n)
		}
		return nil
	})
	close(release)
	for _, ref := range refs {
		w.outcome(ref)
	}
	claims, outcomes := 0, 0
	w.orchestrator.set(func(o *orchestrator) { claims, outcomes = len(o.claims), len(o.completed) })
	require.LessOrEqual(t, claims, steps/8)
	require.LessOrEqual(t, outcomes, steps/8)
	require.Equal(t, 1, see(w.orchestrator, func(o *orchestrator) int { return o.fetches }), "one pipeline, one fetch")
	w.clean(batch)
}
