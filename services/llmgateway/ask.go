package llmgateway

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

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
}

// newAsk computes the call key: SHA-256 over run, step, shard, generation, ask number and the request, in canonical JSON.
// The key must never come out differently for the same question, across replicas and versions: that would pay twice.
func newAsk(req *systemv1.GenerateRequest) (*ask, error) {
	a := &ask{req: req}
	var err error
	if a.request, err = canonicalRequest(req); err != nil {
		return nil, err
	}
	step := req.GetStep()
	a.key.RunID = uuid.UUID(step.GetRunId())
	name, err := canon.AppendString(nil, step.GetStep())
	if err != nil {
		return nil, invalid("step.step", err)
	}
	a.key.Digest = sha256.Sum256(fmt.Appendf(nil, `{"ask":%d,"generation":%d,"request":%s,"run":"%s","shard":%d,"step":%s}`,
		req.GetAsk(), step.GetGeneration(), a.request, a.key.RunID, step.GetShard(), name))
	a.bytes = len(req.GetOutputSchema())
	for _, m := range req.GetMessages() {
		a.bytes += len(m.GetContent())
	}
	return a, nil
}

func canonicalRequest(req *systemv1.GenerateRequest) ([]byte, error) {
	messages := make([]any, len(req.GetMessages()))
	for i, m := range req.GetMessages() {
		messages[i] = map[string]any{"role": m.GetRole(), "content": m.GetContent()}
	}
	request := map[string]any{"route": req.GetRoute(), "messages": messages}
	if params, err := canonicalParams(req.GetParams()); err != nil {
		return nil, err
	} else if len(params) > 0 {
		request["params"] = params
	}
	if req.OutputSchema != nil {
		schema, err := canon.Decode(req.GetOutputSchema())
		if err != nil {
			return nil, invalid("output_schema", err)
		}
		request["output_schema"] = schema
	}
	text, err := canon.Append(nil, request)
	if err != nil {
		return nil, invalid("messages", err)
	}
	return text, nil
}

// canonicalParams holds the parameters that are set.
func canonicalParams(p *systemv1.SamplingParams) (map[string]any, error) {
	set := map[string]any{}
	number := func(name, literal string) error {
		text, err := canon.Number(literal)
		if err != nil {
			return invalid("params."+name, err)
		}
		set[name] = json.Number(text)
		return nil
	}
	if p == nil {
		return set, nil
	}
	for name, value := range map[string]*float64{"temperature": p.Temperature, "top_p": p.TopP} {
		if value == nil {
			continue
		}
		if err := number(name, strconv.FormatFloat(*value, 'g', -1, 64)); err != nil {
			return nil, err
		}
	}
	if p.MaxOutputTokens != nil {
		set["max_output_tokens"] = json.Number(strconv.FormatInt(int64(p.GetMaxOutputTokens()), 10))
	}
	if p.Seed != nil {
		if err := number("seed", strconv.FormatInt(p.GetSeed(), 10)); err != nil {
			return nil, err
		}
	}
	if len(p.GetStop()) > 0 {
		stop := make([]any, len(p.GetStop()))
		for i, s := range p.GetStop() {
			stop[i] = s
		}
		set["stop"] = stop
	}
	return set, nil
}

func invalid(field string, err error) error {
	return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, fault.Violation{Field: field, Message: err.Error()})
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

// mostInput bounds the tokens that the model is to read.
func (a *ask) mostInput() int64 { return price.MostTokens(a.bytes, len(a.req.GetMessages())) }

// question is what is stored of it.
func (a *ask) question() store.Question {
	step := a.req.GetStep()
	_, class := a.class()
	return store.Question{
		Tenant: a.req.GetTenant(), Step: step.GetStep(), Shard: step.GetShard(), Generation: step.GetGeneration(),
		Ask: a.req.GetAsk(), Class: class, PromptVersion: a.req.GetPromptVersion(), Request: a.request,
	}
}
