package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// CompleteSteps stores how attempts have ended, and lets their runs go on.
func (s *Service) CompleteSteps(ctx context.Context, req *systemv1.CompleteStepsRequest) (*systemv1.CompleteStepsResponse, error) {
	runner := idOf(req.GetRunnerId())
	events := make([]*store.Event, len(req.GetOutcomes()))
	for i, o := range req.GetOutcomes() {
		events[i] = s.outcomeEvent(o, runner)
	}
	failpoint.Hit("orchestrator.complete.received")
	errs := s.store.Submit(ctx, events...)
	failpoint.Hit("orchestrator.complete.committed")
	if err := away(errs); err != nil {
		return nil, err
	}
	results := make([]*systemv1.CompleteResult, len(events))
	for i, e := range events {
		results[i] = s.completeResult(ctx, e, errs[i])
		s.metrics.completed(req.GetOutcomes()[i], results[i].GetStatus())
	}
	return &systemv1.CompleteStepsResponse{Results: results}, nil
}

func (s *Service) completeResult(ctx context.Context, e *store.Event, err error) *systemv1.CompleteResult {
	if err == nil {
		if e.Answer == machine.Already {
			return &systemv1.CompleteResult{Status: systemv1.CompleteStatus_COMPLETE_STATUS_ALREADY_STORED}
		}
		return &systemv1.CompleteResult{Status: systemv1.CompleteStatus_COMPLETE_STATUS_STORED}
	}
	if _, stale := errors.AsType[*machine.StaleError](err); stale || errors.Is(err, store.ErrNoRun) {
		return &systemv1.CompleteResult{Status: systemv1.CompleteStatus_COMPLETE_STATUS_STALE, Message: err.Error()}
	}
	if _, illegal := errors.AsType[*machine.IllegalError](err); illegal {
		return &systemv1.CompleteResult{Status: systemv1.CompleteStatus_COMPLETE_STATUS_INVALID, Message: err.Error()}
	}
	s.log.ErrorContext(ctx, "outcome cannot be stored", "run_id", e.RunID, "step", e.Step, "error", err)
	return &systemv1.CompleteResult{
		Status: systemv1.CompleteStatus_COMPLETE_STATUS_INVALID, Message: "the outcome cannot be stored",
	}
}

// outcomeEvent is the event of an outcome. One whose documents cannot be stored is a permanent failure, so that the step
// ends all the same, and what it has cost is kept.
func (s *Service) outcomeEvent(o *systemv1.Outcome, runner uuid.UUID) *store.Event {
	e := &store.Event{Ref: refOf(o.GetStep()), Report: reportOf(o, runner), Spend: spendOf(o.GetUsage().GetRunSpend())}
	attempt := attemptOf(o, runner)
	unfit := s.takeDocuments(o, e.Report)
	if unfit == nil {
		e.Make = outcomeMaker(o, attempt)
		return e
	}
	e.Report.Output, e.Report.Items = store.Document{}, nil
	e.Make = func(ref machine.Ref, _ time.Time) machine.Event {
		return machine.FailedPermanent{Attempt: attempt(ref), Reason: unfit.reason, Detail: unfit.detail}
	}
	return e
}

// misfit says why a document cannot be stored.
type misfit struct {
	reason machine.Reason
	detail string
}

// takeDocuments checks an outcome's documents and puts them into its report.
func (s *Service) takeDocuments(o *systemv1.Outcome, report *store.Report) *misfit {
	switch result := o.GetResult().(type) {
	case *systemv1.Outcome_Succeeded_:
		return s.take(&report.Output, "the output", result.Succeeded.GetOutput())
	case *systemv1.Outcome_ReviewRequested_:
		if result.ReviewRequested.Output == nil {
			return nil
		}
		return s.take(&report.Output, "the output", result.ReviewRequested.GetOutput())
	case *systemv1.Outcome_Expanded_:
		return s.takeItems(result.Expanded.GetItems(), report)
	default:
		return nil
	}
}

func (s *Service) takeItems(items [][]byte, report *store.Report) *misfit {
	report.Items = make([]store.Document, len(items))
	size := 0
	for i, item := range items {
		if size += len(item); size > store.OutputMax {
			return &misfit{machine.ReasonOutputTooLarge, fmt.Sprintf("the items are larger than %d bytes together", store.OutputMax)}
		}
		if unfit := s.take(&report.Items[i], fmt.Sprintf("item %d", i), item); unfit != nil {
			return unfit
		}
	}
	return nil
}

func (s *Service) take(into *store.Document, what string, text []byte) *misfit {
	if len(text) > store.OutputMax {
		return &misfit{
			machine.ReasonOutputTooLarge,
			fmt.Sprintf("%s has %d bytes, and may have %d", what, len(text), store.OutputMax),
		}
	}
	document, err := s.store.Codec().Document(text)
	if err != nil {
		return &misfit{machine.ReasonJSONValidation, fmt.Sprintf("%s cannot be stored: %v", what, err)}
	}
	*into = document
	return nil
}

func reportOf(o *systemv1.Outcome, runner uuid.UUID) *store.Report {
	r := &store.Report{
		Worker: runner, InputTokens: o.GetUsage().GetInputTokens(), OutputTokens: o.GetUsage().GetOutputTokens(),
		Cost: money.Pico(o.GetUsage().GetCostPicoUsd()), PromptVersion: plain(o.GetPromptVersion()),
		InputDigest: o.GetInputDigest(),
	}
	if o.GetStartedAt() != nil {
		r.StartedAt = o.GetStartedAt().AsTime()
	}
	return r
}

func spendOf(s *systemv1.Spend) *store.Spend {
	if s == nil {
		return nil
	}
	return &store.Spend{Spent: money.Pico(s.GetSpentPicoUsd()), Version: s.GetVersion()}
}

// attemptOf is what every outcome says of its attempt, once the step's place in the pipeline is known.
func attemptOf(o *systemv1.Outcome, runner uuid.UUID) func(machine.Ref) machine.Attempt {
	return func(ref machine.Ref) machine.Attempt {
		return machine.Attempt{
			Claim: machine.Claim{
				Ref: ref, Fence: fenceOf(o.GetFence()), ClaimNo: int(o.GetClaimNo()), Worker: machine.ID(runner),
			},
			Calls: int(o.GetUsage().GetCalls()), AsksSpent: asksSpent(o),
		}
	}
}

// asksSpent counts the questions whose answers were at fault; the others are answered from the log when asked again.
func asksSpent(o *systemv1.Outcome) int {
	if o.GetFailed().GetAnswerAtFault() {
		return int(o.GetAsksUsed())
	}
	return 0
}

// maker makes the machine's event of an outcome.
type maker func(ref machine.Ref, now time.Time) machine.Event

func outcomeMaker(o *systemv1.Outcome, attempt func(machine.Ref) machine.Attempt) maker {
	switch result := o.GetResult().(type) {
	case *systemv1.Outcome_Succeeded_:
		return func(ref machine.Ref, _ time.Time) machine.Event { return machine.Succeeded{Attempt: attempt(ref)} }
	case *systemv1.Outcome_Skipped_:
		return func(ref machine.Ref, _ time.Time) machine.Event { return machine.Skipped{Attempt: attempt(ref)} }
	case *systemv1.Outcome_Expanded_:
		return func(ref machine.Ref, _ time.Time) machine.Event {
			return machine.Expanded{Attempt: attempt(ref), Total: len(result.Expanded.GetItems())}
		}
	case *systemv1.Outcome_ReviewRequested_:
		return reviewMaker(result.ReviewRequested, attempt)
	case *systemv1.Outcome_Parked_:
		return parkMaker(result.Parked, attempt)
	default:
		return failureMaker(o.GetFailed(), attempt)
	}
}

func reviewMaker(r *systemv1.Outcome_ReviewRequested, attempt func(machine.Ref) machine.Attempt) maker {
	reason, detail := machine.Reason(plain(r.GetReason())), plain(r.GetMessage())
	return func(ref machine.Ref, _ time.Time) machine.Event {
		return machine.ReviewRequested{Attempt: attempt(ref), Reason: reason, Detail: detail}
	}
}

func parkMaker(p *systemv1.Outcome_Parked, attempt func(machine.Ref) machine.Attempt) maker {
	reason, detail := machine.Reason(plain(p.GetReason())), plain(p.GetMessage())
	return func(ref machine.Ref, now time.Time) machine.Event {
		return machine.Parked{
			Attempt: attempt(ref), Until: now.Add(p.GetUntil().AsDuration()), Reason: reason, Detail: detail,
		}
	}
}

func failureMaker(f *systemv1.Outcome_Failed, attempt func(machine.Ref) machine.Attempt) maker {
	reason, detail := machine.Reason(plain(f.GetReason())), plain(f.GetMessage())
	return func(ref machine.Ref, _ time.Time) machine.Event {
		switch f.GetClass() {
		case systemv1.Outcome_FAILURE_CLASS_TRANSIENT:
			return machine.FailedTransient{
				Attempt: attempt(ref), Reason: reason, Detail: detail, RetryAfter: f.GetRetryAfter().AsDuration(),
			}
		case systemv1.Outcome_FAILURE_CLASS_AMBIGUOUS:
			return machine.Ambiguous{Attempt: attempt(ref), Detail: detail}
		case systemv1.Outcome_FAILURE_CLASS_BUDGET:
			return machine.BudgetExceeded{Attempt: attempt(ref), Detail: detail}
		default:
			return machine.FailedPermanent{Attempt: attempt(ref), Reason: reason, Detail: detail}
		}
	}
}
