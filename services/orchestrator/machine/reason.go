package machine

// Reason says in a stable code why a step or run failed or waits. Codes are shown to people and used in metrics.
type Reason string

// The reason codes.
const (
	ReasonProvider429      Reason = "provider_429"
	ReasonProvider500      Reason = "provider_500"
	ReasonProvider502      Reason = "provider_502"
	ReasonProvider503      Reason = "provider_503"
	ReasonProvider529      Reason = "provider_529"
	ReasonProviderTimeout  Reason = "provider_timeout"
	ReasonNetwork          Reason = "network"
	ReasonQuotaExhausted   Reason = "quota_exhausted"
	ReasonAuth             Reason = "auth"
	ReasonInvalidInput     Reason = "invalid_input"
	ReasonContextTooLong   Reason = "context_too_long"
	ReasonContentRefused   Reason = "content_refused"
	ReasonTruncated        Reason = "truncated"
	ReasonJSONValidation   Reason = "json_validation_error"
	ReasonSchemaMismatch   Reason = "schema_mismatch"
	ReasonBusinessRule     Reason = "business_rule"
	ReasonLowConfidence    Reason = "low_confidence"
	ReasonHandlerError     Reason = "handler_error"
	ReasonWorkerLost       Reason = "worker_lost"
	ReasonStepTimeout      Reason = "step_timeout"
	ReasonDeadlineExceeded Reason = "deadline_exceeded"
	ReasonBudgetExceeded   Reason = "budget_exceeded"
	ReasonCancelled        Reason = "cancelled"
	ReasonClosedByOperator Reason = "closed_by_operator"
	ReasonUndoFailed       Reason = "undo_failed"
	ReasonOutputTooLarge   Reason = "output_too_large"
	ReasonInputTooLarge    Reason = "input_too_large"
	ReasonCallAmbiguous    Reason = "call_ambiguous"
	ReasonModelUnavailable Reason = "model_unavailable"
	ReasonRegionRefused    Reason = "region_refused"
	ReasonModelsDisagree   Reason = "models_disagree"
	ReasonAnswerEmpty      Reason = "answer_empty"
	ReasonAnswerTooLong    Reason = "answer_too_long"
	ReasonProviderBatch    Reason = "provider_batch"
)

// reasons holds every code with one sentence for people, in the order of the constants.
func reasons() []struct {
	code     Reason
	sentence string
} {
	return []struct {
		code     Reason
		sentence string
	}{
		{ReasonProvider429, "The provider answered that we ask too fast (429)."},
		{ReasonProvider500, "The provider had an error of its own (500)."},
		{ReasonProvider502, "The provider's front answered that its server is unreachable (502 or alike)."},
		{ReasonProvider503, "The provider is overloaded or down for the moment (503)."},
		{ReasonProvider529, "The provider is overloaded (529)."},
		{ReasonProviderTimeout, "The provider did not answer in time."},
		{ReasonNetwork, "The other side could not be reached."},
		{ReasonQuotaExhausted, "The account's quota or credit at the provider is used up."},
		{ReasonAuth, "The provider refused our key or its permissions."},
		{ReasonInvalidInput, "The input does not fulfil what the step requires."},
		{ReasonContextTooLong, "The request is longer than the model can take."},
		{ReasonContentRefused, "The provider refused the content by its policy."},
		{ReasonTruncated, "The answer was cut off by a token limit."},
		{ReasonJSONValidation, "The answer is not valid JSON."},
		{ReasonSchemaMismatch, "The answer does not fit the step's schema."},
		{ReasonBusinessRule, "The result breaks a rule of the pipeline."},
		{ReasonLowConfidence, "The result is not certain enough to go on without a person."},
		{ReasonHandlerError, "The step's handler reported an error."},
		{ReasonWorkerLost, "The workers that executed the step were lost, again and again."},
		{ReasonStepTimeout, "The step took longer than its hard timeout."},
		{ReasonDeadlineExceeded, "The run did not end before its deadline."},
		{ReasonBudgetExceeded, "The money allowed for the run or its tenant is used up."},
		{ReasonCancelled, "The run was cancelled on request."},
		{ReasonClosedByOperator, "An operator closed the run."},
		{ReasonUndoFailed, "An effect could not be undone."},
		{ReasonOutputTooLarge, "The step's output is larger than may be stored."},
		{ReasonInputTooLarge, "The step's input is larger than may be handed to a worker."},
		{ReasonCallAmbiguous, "A call was sent, and it is unknown whether it took effect."},
		{ReasonModelUnavailable, "The model does not exist, is retired, or is not open to the account."},
		{ReasonRegionRefused, "The provider does not serve this region."},
		{ReasonModelsDisagree, "The models that were asked do not agree."},
		{ReasonAnswerEmpty, "The answer is empty."},
		{ReasonAnswerTooLong, "The answer is longer than allowed."},
		{ReasonProviderBatch, "The question is in a batch of the provider's, at a lower price, and is answered with it."},
	}
}

// AllReasons lists the reason codes.
func AllReasons() []Reason {
	table := reasons()
	codes := make([]Reason, len(table))
	for i, r := range table {
		codes[i] = r.code
	}
	return codes
}

// Sentence explains the reason in one sentence for people; empty for an unknown code.
func (r Reason) Sentence() string {
	for _, known := range reasons() {
		if known.code == r {
			return known.sentence
		}
	}
	return ""
}

// Known reports whether the code is one of AllReasons.
func (r Reason) Known() bool { return r.Sentence() != "" }
