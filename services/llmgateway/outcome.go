package llmgateway

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/llmgateway/budget"
	"pawl.internal/services/llmgateway/failure"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/store"
)

// outcome is how a Generate ended. It is one of three: an error (the question may be repeated as it is), a failure, or an
// answer.
type outcome struct {
	err error
	// unsettled is what is to be stored of a request that may have been recorded, and whose end was not; nil if there is none.
	unsettled *store.Outcome

	failed *failed
	// reading is the answer; none if failed.
	reading         provider.Reading
	provider, model string

	usage price.Usage
	cost  money.Pico
	spend store.Spend
	// calls is how many requests were sent, and replayed whether the answer was there before.
	calls    int
	replayed bool
}

// failed says why there is no answer.
type failed struct {
	class   systemv1.Outcome_FailureClass
	reason  string
	message string
	wait    time.Duration
	park    bool
	atFault bool
}

// failedWith turns a provider's failure into one of a step.
func failedWith(f failure.Failure) *failed {
	out := &failed{
		class: systemv1.Outcome_FAILURE_CLASS_PERMANENT, reason: f.Reason, message: f.Message, wait: f.Wait, atFault: f.AnswerAtFault,
	}
	switch {
	case f.Class == failure.Unsure:
		out.class = systemv1.Outcome_FAILURE_CLASS_AMBIGUOUS
	case f.Class.Passing(), f.AnswerAtFault && f.Class == failure.Transient:
		out.class = systemv1.Outcome_FAILURE_CLASS_TRANSIENT
	}
	out.park = f.Class.Parks() && f.Wait > 0
	return out
}

// failures that are the gateway's own.
func failedOverBudget(format string, args ...any) *failed {
	return &failed{class: systemv1.Outcome_FAILURE_CLASS_BUDGET, reason: failure.ReasonBudget, message: fmt.Sprintf(format, args...)}
}

// failedRunBudget says that the run's budget has no room.
func failedRunBudget(worst money.Pico, budget *money.Pico) *failed {
	amount := "of nothing"
	if budget != nil {
		amount = "of $" + budget.String()
	}
	return failedOverBudget("the request's worst case, $%s, does not fit into what is left of the run's budget %s", worst, amount)
}

// failedBudget says that a budget beyond the run's has no room.
func failedBudget(e budget.Exceeded) *failed {
	which := "the batch's budget"
	if e.ID.Kind == store.TenantMonth {
		which = "the tenant's budget for " + e.Period.Format("January 2006")
	}
	return failedOverBudget("the request's worst case, $%s, does not fit into %s: $%s of $%s are spent or reserved", e.Worst, which, e.Used, e.Amount)
}

func failedUnpriced(target string) *failed {
	return failedOverBudget("no price of %s holds now, and a budget does: add one to prices in the models file, or set unpriced_reserve", target)
}

func failedTooDear(target string) *failed {
	return failedOverBudget("the worst case of a request to %s is beyond any amount that can be counted", target)
}

func failedCancelled() *failed {
	return &failed{
		class: systemv1.Outcome_FAILURE_CLASS_PERMANENT, reason: failure.ReasonCancelled, message: "the run's calls were cancelled",
	}
}

func failedDeadline() *failed {
	return &failed{
		class: systemv1.Outcome_FAILURE_CLASS_TRANSIENT, reason: failure.ReasonDeadline,
		message: "the run's deadline passed before the request could be sent",
	}
}

func failedUnavailable(message string) *failed {
	return &failed{class: systemv1.Outcome_FAILURE_CLASS_PERMANENT, reason: failure.ReasonUnavailable, message: message}
}

func failedAmbiguous() *failed {
	return &failed{
		class: systemv1.Outcome_FAILURE_CLASS_AMBIGUOUS, reason: failure.ReasonAmbiguous,
		message: "a request was sent, and it is unknown whether it was answered and charged",
	}
}

// message is the last message of a stream. Only the caller that led the call is told of the requests that were sent: whoever
// joined sent none.
func (o outcome) message(a *ask, leads bool) *systemv1.GenerateResponse {
	calls := int32(0)
	if leads {
		calls = int32(o.calls)
	}
	spend := &systemv1.Spend{SpentPicoUsd: int64(o.spend.Amount), Version: o.spend.Version}
	if o.failed != nil {
		f := &systemv1.CallFailure{
			Class: o.failed.class, Reason: o.failed.reason, Message: o.failed.message, Park: o.failed.park,
			AnswerAtFault: o.failed.atFault, InputTokens: o.usage.Input, OutputTokens: o.usage.Output,
			CostPicoUsd: int64(o.cost), Calls: calls, RunSpend: spend, CallKey: a.key.Digest[:],
		}
		if o.failed.wait > 0 {
			f.RetryAfter = durationpb.New(o.failed.wait)
		}
		return &systemv1.GenerateResponse{News: &systemv1.GenerateResponse_Failure{Failure: f}}
	}
	return &systemv1.GenerateResponse{News: &systemv1.GenerateResponse_Answer{Answer: &systemv1.Answer{
		Text: o.reading.Text, FinishReason: o.reading.FinishReason, Provider: o.provider, Model: o.model,
		InputTokens: o.usage.Input, CachedInputTokens: o.usage.CachedInput, OutputTokens: o.usage.Output,
		CostPicoUsd: int64(o.cost), Calls: calls, Replayed: o.replayed || !leads, RunSpend: spend, CallKey: a.key.Digest[:],
		ToolCalls: o.reading.ToolCalls, Embeddings: o.reading.Embeddings, ReasoningTokens: o.usage.Reasoning,
	}}}
}

// result is a word for metrics.
func (o outcome) result() string {
	switch {
	case o.err != nil:
		return "unavailable"
	case o.failed != nil:
		return "failed"
	case o.replayed:
		return "replayed"
	default:
		return "answered"
	}
}
