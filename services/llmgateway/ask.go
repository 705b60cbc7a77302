package llmgateway

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/google/uuid"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/canon"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/llmgateway/permit"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/store"
)

// ask is a question as it came, with what makes it the same question as another.
type ask struct {
	req *systemv1.GenerateRequest
	key store.Key
	// request is what the key covers besides the step: route, messages, schema and parameters, as canonical JSON.
	request []byte
	// bytes is the length of everything that the model is to read.
	bytes int
	// outside: it belongs to no run. The run's id is that of a scope then.
	outside bool
}

// newAsk computes the call key: SHA-256 over run, step, shard, generation, ask number and the request, in canonical JSON.
// The key must never come out differently for the same question, across replicas and versions: that would pay twice.
func newAsk(req *systemv1.GenerateRequest) (*ask, error) {
	a := &ask{req: req}
	var err error
	if err := check(req); err != nil {
		return nil, err
	}
	if a.request, err = canonicalRequest(req); err != nil {
		return nil, err
	}
	a.key.RunID = uuid.UUID(req.GetStep().GetRunId())
	if a.key.Digest, err = a.digest(req.GetAsk()); err != nil {
		return nil, err
	}
	a.bytes = bytesOf(req)
	return a, nil
}

// digest is the key of the same question under a number.
func (a *ask) digest(number int32) ([32]byte, error) {
	step := a.req.GetStep()
	name, err := canon.AppendString(nil, step.GetStep())
	if err != nil {
		return [32]byte{}, invalid("step.step", err)
	}
	return sha256.Sum256(fmt.Appendf(nil, `{"ask":%d,"generation":%d,"request":%s,"run":"%s","shard":%d,"step":%s}`,
		number, step.GetGeneration(), a.request, a.key.RunID, step.GetShard(), name)), nil
}

func invalid(field string, err error) error {
	return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, fault.Violation{Field: field, Message: err.Error()})
}

// check refuses what no provider could be asked.
func check(req *systemv1.GenerateRequest) error {
	if (len(req.GetMessages()) == 0) == (len(req.GetEmbed()) == 0) {
		return invalid("messages", errors.New("a question has messages or texts to embed, and not both"))
	}
	for i, m := range req.GetMessages() {
		if m.GetContent() == "" && len(m.GetParts()) == 0 && len(m.GetToolCalls()) == 0 {
			return invalid(fmt.Sprintf("messages[%d].content", i), errors.New("the message is empty"))
		}
	}
	return nil
}

// bytesOf is the length of everything that the model is to read.
func bytesOf(req *systemv1.GenerateRequest) int {
	n := len(req.GetOutputSchema())
	for _, m := range req.GetMessages() {
		n += len(m.GetContent())
		for _, p := range m.GetParts() {
			n += len(p.GetText())
		}
		for _, c := range m.GetToolCalls() {
			n += len(c.GetName()) + len(c.GetArguments())
		}
	}
	for _, t := range req.GetTools() {
		n += len(t.GetName()) + len(t.GetDescription()) + len(t.GetParameters())
	}
	for _, text := range req.GetEmbed() {
		n += len(text)
	}
	return n
}

// name is the call key as a text.
func (a *ask) name() string { return hex.EncodeToString(a.key.Digest[:]) }

// class is the lane in which it waits for a permit, and that lane's name.
func (a *ask) class() (permit.Class, string) {
	if a.req.GetClass() == pawlv1.RunClass_RUN_CLASS_BATCH {
		return permit.Batch, "batch"
	}
	return permit.Interactive, "interactive"
}

// budget is the run's; nil without a limit.
func (a *ask) budget() *money.Pico {
	if a.req.BudgetPicoUsd == nil {
		return nil
	}
	amount := money.Pico(a.req.GetBudgetPicoUsd())
	return &amount
}

// batch is the run's; zero for none.
func (a *ask) batch() uuid.UUID {
	id, _ := uuid.FromBytes(a.req.GetBatchId())
	return id
}

// mostInput bounds the tokens that the model is to read.
func (a *ask) mostInput() int64 { return price.MostTokens(a.bytes, len(a.req.GetMessages())) }

// question is what is stored of it, with the request as the log keeps it.
func (a *ask) question(kept []byte) store.Question {
	step := a.req.GetStep()
	_, class := a.class()
	return store.Question{
		Tenant: a.req.GetTenant(), Step: step.GetStep(), Shard: step.GetShard(), Generation: step.GetGeneration(),
		Ask: a.req.GetAsk(), Class: class, PromptVersion: a.req.GetPromptVersion(), Request: kept,
		Origin: a.req.GetOrigin(),
	}
}
