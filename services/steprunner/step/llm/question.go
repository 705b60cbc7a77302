package llm

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/steprunner/step"
)

// render fills in the attempt's first question.
func render(a *step.Attempt) (*systemv1.GenerateRequest, error) {
	request, err := a.Step.Request(a.Scope)
	if err != nil {
		return nil, err
	}
	question := &systemv1.GenerateRequest{
		Step: a.Ref, Ask: a.Assignment.GetAskBase(), Route: request.Route,
		Params: &systemv1.SamplingParams{
			Temperature: request.Temperature, TopP: request.TopP, MaxOutputTokens: request.MaxOutputTokens,
			Stop: request.Stop, Seed: request.Seed,
		},
		Tenant: a.Assignment.GetTenant(), Class: a.Assignment.GetClass(),
		LlmTimeout:    durationpb.New(a.Step.Timeouts.LLM),
		BudgetPicoUsd: a.Assignment.BudgetPicoUsd, SpendEpoch: a.Assignment.GetSpendEpoch(),
		AmbiguousOk: a.Assignment.GetAmbiguousOk(), Failures: a.Assignment.GetFailures(),
		// The last request's runner may have died after sending it; then this question has its answer, and sends nothing.
		CallsLeft:     max(a.Assignment.GetCallsLeft(), 1),
		FallbackAfter: int32(a.Step.FallbackAfter), PromptVersion: a.Step.PromptVersion,
		Origin: a.Assignment.GetPipeline(), BatchId: a.Assignment.BatchId, BatchBudgetPicoUsd: a.Assignment.BatchBudgetPicoUsd,
	}
	if a.Step.OutputSchema != nil {
		question.OutputSchema = a.Step.OutputSchema.JSON
	}
	for i, message := range request.Messages {
		if message.Content == "" {
			return nil, fmt.Errorf("steps.%s.llm: message %d (%s) is empty", a.Step.Name, i, message.Role)
		}
		question.Messages = append(question.Messages, &systemv1.Message{Role: message.Role, Content: message.Content})
	}
	return question, nil
}

// again is the question after a bad answer: the conversation so far, the answer, and the complaint, under the next number.
func again(question *systemv1.GenerateRequest, bad *badAnswer) *systemv1.GenerateRequest {
	next := proto.CloneOf(question)
	next.Ask++
	if bad.text != "" {
		next.Messages = append(next.Messages, &systemv1.Message{Role: "assistant", Content: bad.text})
	}
	next.Messages = append(next.Messages, &systemv1.Message{Role: "user", Content: bad.complaint})
	return next
}

// digestOf is the SHA-256 of what the model is told. The parts stand with their lengths, so that no two questions run into
// the same bytes.
func digestOf(question *systemv1.GenerateRequest) []byte {
	digest := step.NewDigest()
	digest.Add([]byte(question.GetRoute()))
	for _, message := range question.GetMessages() {
		digest.Add([]byte(message.GetRole()))
		digest.Add([]byte(message.GetContent()))
	}
	return digest.Sum()
}
