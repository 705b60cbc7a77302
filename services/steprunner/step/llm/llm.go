// Package llm executes the steps that ask a model.
//
// A question is rendered from the step's data alone, so that every attempt asks in the very same words: the gateway knows
// a question by its content and its number, and answers a repeated one from its log. An answer that cannot be used is
// followed by another question, with the complaint, within the same attempt, as often as the step's repair policy says.
package llm

import (
	"context"
	"encoding/json"
	"errors"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/steprunner/step"
)

// Kind asks models through the gateway.
type Kind struct {
	gateway systemv1.GatewayServiceClient
	clock   clock.Clock
}

// New returns the kind.
func New(gateway systemv1.GatewayServiceClient, c clock.Clock) *Kind {
	return &Kind{gateway: gateway, clock: c}
}

// Execute asks until an answer can be used, and returns it: the text, or the JSON value when the step has a schema.
func (k *Kind) Execute(ctx context.Context, a *step.Attempt) (json.RawMessage, error) {
	question, err := render(a)
	if err != nil {
		return nil, step.InvalidInput(err)
	}
	a.Report.PromptVersion = a.Step.PromptVersion
	a.Report.InputDigest = digestOf(question)
	for asks := 1; ; asks++ {
		output, bad, err := k.turn(ctx, a, question)
		if err != nil {
			return nil, err
		}
		if bad != nil && !bad.refused && asks <= a.Step.Repairs && question.GetCallsLeft() > 0 {
			question = again(question, bad)
			continue
		}
		a.Report.AsksUsed = asks
		if bad != nil {
			return nil, bad.failure
		}
		return output, nil
	}
}

// turn puts one question and looks at its answer. The error is that there is none.
func (k *Kind) turn(
	ctx context.Context, a *step.Attempt, question *systemv1.GenerateRequest,
) (json.RawMessage, *badAnswer, error) {
	answer, err := k.ask(ctx, a, question)
	if call, ok := errors.AsType[*callError](err); ok {
		count(a, question, call.failure)
		if call.failure.GetAnswerAtFault() {
			return nil, unusable(call.failure), nil
		}
		return nil, nil, outcomeOf(call.failure)
	}
	if err != nil {
		return nil, nil, err
	}
	count(a, question, answer)
	output, bad := read(a.Step, answer.GetText())
	return output, bad, nil
}

// billed is an answer or a failed call: both may have cost something.
type billed interface {
	GetInputTokens() int64
	GetOutputTokens() int64
	GetCostPicoUsd() int64
	GetCalls() int32
	GetRunSpend() *systemv1.Spend
}

// count adds what a call used to the attempt's usage, and takes its requests off what the step may still send.
func count(a *step.Attempt, question *systemv1.GenerateRequest, call billed) {
	if a.Report.Usage == nil {
		a.Report.Usage = &systemv1.Usage{}
	}
	usage := a.Report.Usage
	usage.InputTokens += call.GetInputTokens()
	usage.OutputTokens += call.GetOutputTokens()
	usage.CostPicoUsd += call.GetCostPicoUsd()
	usage.Calls += call.GetCalls()
	if spend := call.GetRunSpend(); spend != nil && spend.GetVersion() >= usage.GetRunSpend().GetVersion() {
		usage.RunSpend = spend
	}
	question.CallsLeft = a.Assignment.GetCallsLeft() - usage.GetCalls()
}
