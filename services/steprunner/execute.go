package steprunner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"google.golang.org/protobuf/types/known/timestamppb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/pipeline"
	"pawl.internal/services/steprunner/step"
)

const (
	// maxOutput bounds a step's output, and the items of a fan-out together, in bytes of JSON.
	maxOutput = 8 << 20
	// maxItems bounds a fan-out.
	maxItems = 10_000
)

// errSoftTimeout ends an attempt whose working time is used up.
var errSoftTimeout = errors.New("soft timeout")

// executor turns claims into outcomes.
type executor struct {
	pipelines *pipelines
	kinds     map[pipeline.Kind]step.Kind
	lease     *lease
	clock     clock.Clock
	log       *slog.Logger
	metrics   *metrics
}

// execute carries out a claim, or puts it off when it is not its turn, and returns its outcome; nil when ctx ended before,
// because then nobody would take it.
func (x *executor) execute(ctx context.Context, h *hold, turn bool) *systemv1.Outcome {
	a := &step.Attempt{
		Ref: h.ref, Assignment: h.assignment(), Scope: scopeOf(h), Confirm: x.lease.await, Report: &step.Report{},
		Deadline: h.began.Add(h.assignment().GetDeadlineIn().AsDuration()),
	}
	outcome, kind := parked(notItsTurn()), "unknown"
	if turn {
		failpoint.Hit("runner.execute", h.ref.GetStep())
		outcome, kind = x.find(ctx, h, a)
	}
	if ctx.Err() != nil {
		return nil
	}
	x.metrics.ended(h.class, kind, resultName(outcome), x.clock.Now().Sub(h.began))
	outcome.Step, outcome.Fence, outcome.ClaimNo = h.ref, h.fence[:], h.assignment().GetClaimNo()
	outcome.StartedAt = timestamppb.New(h.began)
	outcome.Usage, outcome.AsksUsed = a.Report.Usage, int32(a.Report.AsksUsed)
	outcome.PromptVersion, outcome.InputDigest = a.Report.PromptVersion, a.Report.InputDigest
	return outcome
}

// find looks the step up in its pipeline, and executes it. It tells the step's kind for metrics.
func (x *executor) find(ctx context.Context, h *hold, a *step.Attempt) (outcome *systemv1.Outcome, kind string) {
	compiled, err := x.pipelines.get(ctx, a.Assignment.GetTenant(), a.Assignment.GetPipelineDigest())
	if err != nil {
		if ctx.Err() == nil {
			x.log.ErrorContext(ctx, "pipeline unusable", "run_id", runID(a.Ref), "error", err)
		}
		return failed(step.Transient(step.ReasonHandlerError, "the step-runner cannot use the pipeline; its log says why")), "unknown"
	}
	if a.Step = compiled.Step(a.Ref.GetStep()); a.Step == nil {
		return failed(step.Permanent(step.ReasonHandlerError, "the pipeline has no step "+a.Ref.GetStep())), "unknown"
	}
	return x.bounded(ctx, h, a), string(a.Step.Kind)
}

// bounded executes the step within its soft timeout.
func (x *executor) bounded(ctx context.Context, h *hold, a *step.Attempt) *systemv1.Outcome {
	a.Stopwatch = step.NewStopwatch(x.clock, a.Step.Timeouts.Soft)
	h.stopwatch.Store(a.Stopwatch)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if a.Stopwatch.Wait(ctx) {
			cancel(errSoftTimeout)
		}
	}()
	return x.guarded(ctx, a)
}

// guarded executes the step; a panic fails this step alone.
func (x *executor) guarded(ctx context.Context, a *step.Attempt) (outcome *systemv1.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			x.metrics.panics.Inc()
			x.log.ErrorContext(ctx, "step panicked", "run_id", runID(a.Ref), "step", a.Ref.GetStep(),
				"error", fault.FromPanic(p))
			outcome = failed(step.Internal())
		}
	}()
	a.Report.InputDigest = step.DigestOf(a.Assignment)
	if outcome := gate(a); outcome != nil {
		return outcome
	}
	kind := x.kinds[a.Step.Kind]
	if kind == nil {
		return failed(step.Transient(step.ReasonHandlerError, "this step-runner knows no steps of kind "+string(a.Step.Kind)))
	}
	output, err := kind.Execute(ctx, a)
	if err != nil {
		return x.explain(ctx, a, err)
	}
	return judge(a, output)
}

// explain makes an outcome of the reason why there is no output.
func (x *executor) explain(ctx context.Context, a *step.Attempt, err error) *systemv1.Outcome {
	if failure, ok := errors.AsType[*step.Failure](err); ok {
		return failed(failure)
	}
	if parking, ok := errors.AsType[*step.Parked](err); ok {
		return parked(parking)
	}
	if errors.Is(context.Cause(ctx), errSoftTimeout) {
		return failed(step.Transient(step.ReasonStepTimeout,
			fmt.Sprintf("the step took longer than its soft timeout of %v", a.Step.Timeouts.Soft)))
	}
	if ctx.Err() == nil {
		x.log.ErrorContext(ctx, "step failed by a fault of the program", "run_id", runID(a.Ref), "step", a.Ref.GetStep(),
			"error", err)
	}
	return failed(step.Internal())
}

// judge decides what an output means: done, or to be looked at by a person.
func judge(a *step.Attempt, output json.RawMessage) *systemv1.Outcome {
	if len(output) > maxOutput {
		return failed(step.Permanent(step.ReasonOutputTooLarge,
			fmt.Sprintf("the output has %d bytes; at most %d are stored", len(output), maxOutput)))
	}
	wanted, err := a.Step.NeedsReview(a.Scope, output)
	switch {
	case err != nil: // the output may have been paid for: a person decides, rather than that it is thrown away
		return reviewed(a.Step.ReviewReason, err.Error(), output)
	case wanted:
		return reviewed(a.Step.ReviewReason, "the result meets the step's condition for a review", output)
	default:
		return succeeded(output)
	}
}
