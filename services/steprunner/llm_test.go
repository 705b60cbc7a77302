package steprunner_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/fault"
)

const extract = `
  - name: it
    llm:
      route: fast
      system: You are terse.
      prompt: "Read: ${input}"
      output_schema: {type: object, required: [title], properties: {title: {type: string}, n: {type: integer}}}
      temperature: 0
      max_output_tokens: 100
    repair: {attempts: 2}
    fallback_after: 2
    llm_timeout: 20s
`

// answers gives the answers in turn, and the last one from then on.
func answers(news ...*systemv1.GenerateResponse) answerer {
	turn := make(chan *systemv1.GenerateResponse, len(news))
	for _, n := range news {
		turn <- n
	}
	return func(_ context.Context, _ *systemv1.GenerateRequest, say func(*systemv1.GenerateResponse)) error {
		select {
		case n := <-turn:
			say(n)
		default:
			say(news[len(news)-1])
		}
		return nil
	}
}

func fails(f *systemv1.CallFailure) *systemv1.GenerateResponse {
	return &systemv1.GenerateResponse{News: &systemv1.GenerateResponse_Failure{Failure: f}}
}

func TestQuestionToAModel(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.gateway.set(says(`{"title": "Lease",  "n": 2.0}`))
	digest := w.pipeline(extract)
	budget := int64(5_000)
	ref := w.submit(given{digest: digest, input: `{"b":1,"a":"x"}`, assignment: func(a *systemv1.Assignment) {
		a.AskBase, a.AmbiguousOk, a.Failures, a.CallsLeft, a.SpendEpoch, a.BudgetPicoUsd = 4, 1, 2, 3, 6, &budget
		a.DeadlineIn = durationpb.New(time.Minute)
	}})
	outcome := w.outcome(ref)
	require.Equal(t, `output {"n":2,"title":"Lease"}`, said(outcome))
	require.EqualValues(t, 1, outcome.GetAsksUsed())
	require.NotEmpty(t, outcome.GetPromptVersion())
	require.Len(t, outcome.GetInputDigest(), 32)
	require.EqualValues(t, 10, outcome.GetUsage().GetInputTokens())
	require.EqualValues(t, 5, outcome.GetUsage().GetOutputTokens())
	require.EqualValues(t, 1, outcome.GetUsage().GetCalls())
	require.EqualValues(t, 2, outcome.GetUsage().GetRunSpend().GetVersion())

	q := w.gateway.asked()[0]
	require.Equal(t, keyOf(ref), keyOf(q.GetStep()))
	require.EqualValues(t, 4, q.GetAsk())
	require.Equal(t, "acme", q.GetTenant())
	require.Equal(t, interactive, q.GetClass())
	require.Equal(t, "fast", q.GetRoute())
	require.Equal(t, "system", q.GetMessages()[0].GetRole())
	require.Equal(t, "You are terse.", q.GetMessages()[0].GetContent())
	require.Equal(t, "user", q.GetMessages()[1].GetRole())
	require.Equal(t, `Read: {"a":"x","b":1}`, q.GetMessages()[1].GetContent())
	require.JSONEq(t, `{"type":"object","required":["title"],"properties":{"title":{"type":"string"},"n":{"type":"integer"}}}`, string(q.OutputSchema))
	require.Zero(t, q.GetParams().GetTemperature())
	require.NotNil(t, q.GetParams().Temperature)
	require.EqualValues(t, 100, q.GetParams().GetMaxOutputTokens())
	require.Nil(t, q.GetParams().TopP)
	require.Equal(t, 20*time.Second, q.GetLlmTimeout().AsDuration())
	require.InDelta(t, time.Minute, q.GetDeadlineIn().AsDuration(), float64(10*time.Second))
	require.LessOrEqual(t, q.GetDeadlineIn().AsDuration(), time.Minute)
	require.EqualValues(t, 5_000, q.GetBudgetPicoUsd())
	require.EqualValues(t, 6, q.GetSpendEpoch())
	require.EqualValues(t, 1, q.GetAmbiguousOk())
	require.EqualValues(t, 3, q.GetCallsLeft())
	require.EqualValues(t, 2, q.GetFailures())
	require.EqualValues(t, 2, q.GetFallbackAfter())
	require.Equal(t, outcome.GetPromptVersion(), q.GetPromptVersion())
}

func TestAnswerWithoutASchemaIsItsText(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.gateway.set(says("```\nany \"text\"\n```"))
	outcome := w.outcome(w.submit(given{digest: w.pipeline(ask), input: `{"n":1}`}))
	require.Equal(t, `"`+"```"+`\nany \"text\"\n`+"```"+`"`, string(outcome.GetSucceeded().GetOutput()))
}

func TestBadAnswerIsRepairedUnderTheNextNumber(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.gateway.set(answers(text("Sorry."), text(`{"n":"x"}`), text("```json\n{\"title\":\"T\"}\n```")))
	ref := w.submit(given{digest: w.pipeline(extract), input: `1`, assignment: func(a *systemv1.Assignment) { a.AskBase = 2 }})
	outcome := w.outcome(ref)
	require.Equal(t, `output {"title":"T"}`, said(outcome))
	require.EqualValues(t, 3, outcome.GetAsksUsed())
	require.EqualValues(t, 3, outcome.GetUsage().GetCalls())
	require.EqualValues(t, 2100, outcome.GetUsage().GetCostPicoUsd())
	asked := w.gateway.asked()
	require.Len(t, asked, 3)
	for i, q := range asked {
		require.EqualValues(t, 2+i, q.GetAsk())
		require.EqualValues(t, 8-i, q.GetCallsLeft())
		require.Len(t, q.GetMessages(), 2+2*i)
	}
	last := asked[2].GetMessages()
	require.Equal(t, "assistant", last[2].GetRole())
	require.Equal(t, "Sorry.", last[2].GetContent())
	require.Equal(t, "user", last[3].GetRole())
	require.Contains(t, last[3].GetContent(), "not valid JSON")
	require.JSONEq(t, `{"n":"x"}`, last[4].GetContent())
	require.Contains(t, last[5].GetContent(), "- missing property 'title'\n- /n: got string, want integer\n")
}

func TestFailuresOfModelCalls(t *testing.T) {
	t.Parallel()
	const permanent, transient, ambiguous, budget = systemv1.Outcome_FAILURE_CLASS_PERMANENT,
		systemv1.Outcome_FAILURE_CLASS_TRANSIENT, systemv1.Outcome_FAILURE_CLASS_AMBIGUOUS, systemv1.Outcome_FAILURE_CLASS_BUDGET
	seconds := func(n int) *durationpb.Duration { return durationpb.New(time.Duration(n) * time.Second) }
	w := start(t)
	digest := w.pipeline(extract)
	once := w.pipeline(strings.ReplaceAll(extract, "repair: {attempts: 2}", ""))
	for name, c := range map[string]struct {
		digest    []byte
		answer    answerer
		callsLeft int32
		want      string
		asks      int32
		atFault   bool
		calls     int
	}{
		"the schema is broken": {
			digest: once, answer: says(`{"n":1}`), asks: 1, atFault: true, calls: 1,
			want: "permanent schema_mismatch: the model's answer breaks the schema: missing property 'title'",
		},
		"the schema is broken again and again": {
			digest: digest, answer: says(`{"n":1}`), asks: 3, atFault: true, calls: 3,
			want: "permanent schema_mismatch: the model's answer breaks the schema: missing property 'title'",
		},
		"no call is left for a repair": {
			digest: digest, answer: says(`{"n":1}`), callsLeft: 2, asks: 2, atFault: true, calls: 2,
			want: "permanent schema_mismatch: the model's answer breaks the schema: missing property 'title'",
		},
		"no call seems to be left, but the answer may be there": {
			digest: digest, answer: says(`{"title":"x"}`), callsLeft: -1, asks: 1, calls: 1, want: `output {"title":"x"}`,
		},
		"no JSON": {
			digest: once, answer: says("no"), asks: 1, atFault: true, calls: 1, want: "permanent json_validation_error: the model's answer is not valid JSON",
		},
		"cut off, and repaired": {
			digest: digest, asks: 2, calls: 2, want: `output {"title":"x"}`,
			answer: answers(fails(&systemv1.CallFailure{Class: permanent, Reason: "truncated", AnswerAtFault: true, Calls: 1}), text(`{"title":"x"}`)),
		},
		"cut off": {
			digest: once, asks: 1, atFault: true, calls: 1, want: "permanent truncated: cut",
			answer: answers(fails(&systemv1.CallFailure{Class: permanent, Reason: "truncated", Message: "cut", AnswerAtFault: true})),
		},
		"refused": {
			digest: digest, asks: 1, atFault: true, calls: 1, want: "permanent content_refused: no",
			answer: answers(fails(&systemv1.CallFailure{Class: permanent, Reason: "content_refused", Message: "no", AnswerAtFault: true}), text(`{"title":"x"}`)),
		},
		"too many requests": {
			digest: digest, calls: 1, want: "transient provider_429: slow down",
			answer: answers(fails(&systemv1.CallFailure{Class: transient, Reason: "provider_429", Message: "slow down", RetryAfter: seconds(7)})),
		},
		"too many requests during a repair": { // the bad answer is replayed, and so the same repair asked for
			digest: digest, calls: 2, want: "transient provider_429: slow down",
			answer: answers(text("no"), fails(&systemv1.CallFailure{Class: transient, Reason: "provider_429", Message: "slow down", RetryAfter: seconds(7)})),
		},
		"a call of unknown fate": {
			digest: digest, calls: 1, want: "ambiguous call_ambiguous: cut off",
			answer: answers(fails(&systemv1.CallFailure{Class: ambiguous, Reason: "call_ambiguous", Message: "cut off"})),
		},
		"no money": {
			digest: digest, calls: 1, want: "budget budget_exceeded: used up",
			answer: answers(fails(&systemv1.CallFailure{Class: budget, Reason: "budget_exceeded", Message: "used up"})),
		},
		"no such model": {
			digest: digest, calls: 1, want: "permanent model_unavailable: no route fast",
			answer: refuses(fault.New(faultv1.ErrorReason_ERROR_REASON_MODEL_UNKNOWN, "no route fast")),
		},
		"no time": {
			digest: digest, calls: 1, want: "transient deadline_exceeded: the run's deadline leaves no time for a model call",
			answer: refuses(fault.New(faultv1.ErrorReason_ERROR_REASON_DEADLINE_TOO_SHORT, "too short")),
		},
		"a question that the gateway refuses": {
			digest: digest, calls: 1, want: "permanent invalid_input: the gateway refused the question: bad",
			answer: refuses(fault.New(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, "bad")),
		},
		"a fault of the gateway": {
			digest: digest, calls: 1, want: "transient handler_error: the llm-gateway had a fault of its own; its log has the details",
			answer: refuses(fault.Internal(nil)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(w.gateway.asked())
			w.gateway.set(c.answer)
			outcome := w.outcome(w.submit(given{digest: c.digest, input: `1`, assignment: func(a *systemv1.Assignment) {
				if c.callsLeft != 0 {
					a.CallsLeft = max(c.callsLeft, 0)
				}
			}}))
			require.Contains(t, said(outcome), c.want)
			require.Equal(t, c.asks, outcome.GetAsksUsed())
			require.Equal(t, c.atFault, outcome.GetFailed().GetAnswerAtFault())
			require.Len(t, w.gateway.asked(), before+c.calls)
			if strings.Contains(c.want, "provider_429") {
				require.Equal(t, 7*time.Second, outcome.GetFailed().GetRetryAfter().AsDuration())
			}
		})
	}
}

func refuses(err error) answerer {
	return func(context.Context, *systemv1.GenerateRequest, func(*systemv1.GenerateResponse)) error { return err }
}

func TestStepWithALongWaitIsParked(t *testing.T) {
	t.Parallel()
	w := start(t)
	digest := w.pipeline(ask)
	for stated, want := range map[time.Duration]time.Duration{time.Hour: time.Hour, 0: time.Minute} {
		failure := &systemv1.CallFailure{
			Class: systemv1.Outcome_FAILURE_CLASS_TRANSIENT, Reason: "provider_429", Message: "daily limit", Park: true, Calls: 1,
			RunSpend: &systemv1.Spend{SpentPicoUsd: 9, Version: 3},
		}
		if stated > 0 {
			failure.RetryAfter = durationpb.New(stated)
		}
		w.gateway.set(answers(fails(failure)))
		outcome := w.outcome(w.submit(given{digest: digest, input: `{"n":1}`}))
		require.Equal(t, want, outcome.GetParked().GetUntil().AsDuration())
		require.Equal(t, "provider_429", outcome.GetParked().GetReason())
		require.Equal(t, "daily limit", outcome.GetParked().GetMessage())
		require.EqualValues(t, 1, outcome.GetUsage().GetCalls())
		require.EqualValues(t, 3, outcome.GetUsage().GetRunSpend().GetVersion())
	}
}

func TestNoCallAfterTheDeadlineOrWithoutAQuestion(t *testing.T) {
	t.Parallel()
	w := start(t)
	digest := w.pipeline(ask)
	late := w.outcome(w.submit(given{digest: digest, input: `{"n":1}`, assignment: func(a *systemv1.Assignment) { a.DeadlineIn = durationpb.New(0) }}))
	require.Equal(t, "transient deadline_exceeded: the run's deadline leaves no time for a model call", said(late))
	empty := w.outcome(w.submit(given{digest: w.pipeline(`  - {name: it, llm: {prompt: "${input.text}"}}`), input: `{"text":""}`}))
	require.Equal(t, "permanent invalid_input: steps.it.llm: message 0 (user) is empty", said(empty))
	require.Empty(t, w.gateway.asked())
}
