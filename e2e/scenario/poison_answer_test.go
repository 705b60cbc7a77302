package scenario

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// Pipelines that ask and hand on what they got: one takes any text, the others any JSON object. So an answer goes through all
// that an output goes through: it is stored, given to the next step's claim, evaluated, and read over the API. The last one
// wraps it once more, which is too deep for what was as deep as an answer may be.
const (
	poisonText = `
name: poison_text
version: v1
steps:
  - name: ask
    llm: {prompt: "Answer ${input.case}"}
    retry: {max_attempts: 2, initial: 100ms, factor: 1, jitter: 0}
  - name: pass
    transform: {seen: "${steps.ask.output}"}
`
	poisonJSON = `
name: poison_json
version: v1
steps:
  - name: ask
    llm: {prompt: "Answer ${input.case}", output_schema: {type: object}}
    retry: {max_attempts: 2, initial: 100ms, factor: 1, jitter: 0}
  - name: pass
    transform: {seen: "${steps.ask.output}"}
`
	poisonWrapped = `
name: poison_wrapped
version: v1
steps:
  - name: ask
    llm: {prompt: "Answer ${input.case}", output_schema: {type: object}}
  - name: wrap
    transform: {wrapped: "${steps.ask.output}"}
  - name: pass
    transform: {seen: "${steps.wrap.output.wrapped}"}
`
)

// poison is an odd answer of a model, and what becomes of the run that gets it.
type poison struct {
	pipeline string
	reply    simulated.Reply
	// reason is why the run fails; empty if it is done, with this as what the next step has seen.
	reason, seen string
	// requests is how many requests the run sends; 0 stands for 1.
	requests int
	// free says that the answer costs nothing.
	free bool
}

// said is an answer whose model has said the text, with whatever else the envelope is to have.
func said(text string, more ...func(map[string]any)) simulated.Reply {
	envelope := map[string]any{
		"choices": []any{map[string]any{"message": map[string]any{"role": "assistant", "content": text}, "finish_reason": "stop"}},
		"usage":   map[string]any{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
	}
	for _, change := range more {
		change(envelope)
	}
	body, err := json.Marshal(envelope)
	if err != nil {
		panic(err)
	}
	return simulated.Reply{Status: http.StatusOK, Header: map[string]string{"Content-Type": "application/json"}, Body: string(body)}
}

func with(key string, value any) func(map[string]any) {
	return func(envelope map[string]any) { envelope[key] = value }
}

func finishing(word string) func(map[string]any) {
	return func(envelope map[string]any) { envelope["choices"].([]any)[0].(map[string]any)["finish_reason"] = word }
}

// rawly is an answer whose content is written into the envelope byte for byte, between quotes.
func rawly(content string) simulated.Reply {
	return simulated.Reply{Status: http.StatusOK, Raw: []byte(
		`{"choices":[{"message":{"role":"assistant","content":"` + content + `"},"finish_reason":"stop"}],` +
			`"usage":{"prompt_tokens":10,"completion_tokens":5}}`,
	)}
}

func bytesOf(status int, body string) simulated.Reply {
	return simulated.Reply{Status: status, Raw: []byte(body)}
}

func headed(r simulated.Reply, name, value string) simulated.Reply {
	header := map[string]string{name: value}
	for k, v := range r.Header {
		header[k] = v
	}
	r.Header = header
	return r
}

// nested is a JSON object with objects inside, so deep.
func nested(depth int) string {
	return strings.Repeat(`{"a":`, depth-1) + "{}" + strings.Repeat("}", depth-1)
}

func quoted(text string) string {
	form, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(form)
}

const (
	mebibyte = 1 << 20
	// badJSON and badSchema are the reasons of an answer that cannot be used.
	badJSON, badSchema = "json_validation_error", "schema_mismatch"
)

// textPoisons are odd answers to a question for text.
func textPoisons() map[string]poison {
	huge := strings.Repeat("x", 10*mebibyte)
	page := "<html><body><h1>502</h1>not a model</body></html>"
	return map[string]poison{
		"nul escaped":           {reply: rawly(`a\u0000b`), seen: `"a\u0000b"`},
		"nul raw":               {reply: rawly("a\x00b"), reason: badJSON, requests: 2},
		"lone surrogate":        {reply: rawly(`a\ud800b`), seen: quoted("a\ufffdb")},
		"invalid UTF-8":         {reply: rawly("a\xff\xc3b"), seen: quoted("a\ufffd\ufffdb")},
		"control characters":    {reply: said("\x01\x1f\x7f\u2028\ufeff"), seen: `"\u0001\u001f\u007f\u2028\ufeff"`},
		"right to left":         {reply: said("\u202e\u0645\u0631\u062d\u0628\u0627 👩‍👩‍👧 e\u0301"), seen: quoted("\u202e\u0645\u0631\u062d\u0628\u0627 👩‍👩‍👧 e\u0301")},
		"looks like a template": {reply: said("${input.case} %s {{x}} '; DROP TABLE core.pipeline_run; --"), seen: quoted("${input.case} %s {{x}} '; DROP TABLE core.pipeline_run; --")},
		"8 MiB and a little":    {reply: said(huge[:8*mebibyte]), reason: "output_too_large"},
		"10 MiB":                {reply: said(huge), reason: "output_too_large"},
		"20 MiB":                {reply: said(huge + huge), reason: "answer_too_long"},
		"empty content":         {reply: said(""), reason: "answer_empty", requests: 2},
		"empty body":            {reply: bytesOf(http.StatusOK, ""), reason: badJSON, requests: 2},
		"no choices":            {reply: said("", with("choices", []any{})), reason: "answer_empty", requests: 2},
		"choices are null":      {reply: said("", with("choices", nil)), reason: "answer_empty", requests: 2},
		"content is a number":   {reply: bytesOf(http.StatusOK, `{"choices":[{"message":{"content":7}}]}`), reason: badJSON, requests: 2},
		"an array":              {reply: bytesOf(http.StatusOK, `[1,2]`), reason: badJSON, requests: 2},
		"a page":                {reply: bytesOf(http.StatusOK, page), reason: badJSON, requests: 2},
		"a page as content":     {reply: said(page), seen: quoted(page)},
		"cut in the middle":     {reply: bytesOf(http.StatusOK, `{"choices":[{"message":{"content":"hal`), reason: badJSON, requests: 2},
		"envelope too deep":     {reply: bytesOf(http.StatusOK, `{"choices":`+strings.Repeat("[", 20_000)), reason: badJSON, requests: 2},
		"finish unknown":        {reply: said("fine", finishing("banana")), seen: `"fine"`},
		"finish odd":            {reply: said("fine", finishing("a\x00b\ufffd"+huge[:mebibyte])), seen: `"fine"`},
		"usage negative":        {reply: said("fine", with("usage", map[string]any{"prompt_tokens": -10, "completion_tokens": 5})), seen: `"fine"`},
		"usage absurd":          {reply: said("fine", with("usage", map[string]any{"prompt_tokens": 10, "completion_tokens": 9e18})), seen: `"fine"`},
		"usage beyond int64":    {reply: said("fine", with("usage", json.RawMessage(`{"prompt_tokens":1e400,"completion_tokens":1}`))), seen: `"fine"`},
		"usage is a text":       {reply: said("fine", with("usage", "many")), seen: `"fine"`},
		"request id odd":        {reply: headed(said("fine"), "X-Request-Id", "a\u0080\u00ff"+huge[:mebibyte/2]), seen: `"fine"`},
		"headers of 2 MiB":      {reply: headed(said("fine"), "X-Noise", huge[:2*mebibyte]), seen: `"fine"`},
		"refusal in words":      {reply: bytesOf(http.StatusOK, `{"choices":[{"message":{"content":null,"refusal":"no \u0000"}}]}`), reason: "content_refused"},
		"error with a nul":      {reply: bytesOf(http.StatusBadRequest, `{"error":{"message":"bad \u0000 `+"\xff"+`","type":"invalid_request_error","code":"\u0000"}}`), reason: "invalid_input", free: true},
		"error of 10 MiB":       {reply: bytesOf(http.StatusBadRequest, `{"error":{"message":"`+huge+`"}}`), reason: "invalid_input", free: true},
	}
}

// jsonPoisons are odd answers to a question for a JSON object.
func jsonPoisons() map[string]poison {
	digits := strings.Repeat("9", 300)
	return map[string]poison{
		"nul escaped":        {reply: said(`{"a":"x\u0000y","\u0000":1}`), seen: `{"\u0000":1,"a":"x\u0000y"}`},
		"nul raw":            {reply: said("{\"a\":\"x\x00y\"}"), reason: badJSON},
		"lone surrogate":     {reply: said(`{"a":"\ud800"}`), reason: badJSON},
		"surrogate as a key": {reply: said(`{"\udc00":1}`), reason: badJSON},
		"invalid UTF-8":      {reply: rawly("{\\\"a\\\":\\\"\xff\\\"}"), seen: `{"a":"` + "\ufffd" + `"}`},
		"depth 900":          {reply: said(nested(900)), seen: nested(900)},
		"depth 1 000":        {reply: said(nested(1000)), seen: nested(1000)},
		"depth 1 001":        {reply: said(nested(1001)), reason: badJSON},
		"depth 10 000":       {reply: said(nested(10_000)), reason: badJSON},
		"duplicate keys":     {reply: said(`{"a":1,"a":2}`), reason: badJSON},
		"1e308":              {reply: said(`{"a":1e308}`), seen: `{"a":1e+308}`},
		"1e400":              {reply: said(`{"a":1e400}`), reason: badJSON},
		"1e-400":             {reply: said(`{"a":1e-400}`), reason: badJSON},
		"300 digits":         {reply: said(`{"a":` + digits + `}`), seen: `{"a":9.` + digits[1:] + `e+299}`},
		"2^63":               {reply: said(`{"a":9223372036854775808}`), seen: `{"a":9223372036854775808}`},
		"minus zero":         {reply: said(`{"a":-0,"b":-0.0}`), seen: `{"a":0,"b":0}`},
		"NaN":                {reply: said(`{"a":NaN}`), reason: badJSON},
		"empty key":          {reply: said(`{"":{"":""}}`), seen: `{"":{"":""}}`},
		"odd keys":           {reply: said(`{"__proto__":1,"a.b":2,"a/b~":3,"\"":4," ":5,"${x}":6,"日本":7}`), seen: `{"__proto__":1,"a.b":2,"a/b~":3,"\"":4," ":5,"${x}":6,"日本":7}`},
		"a page":             {reply: said("<html><body>Sorry</body></html>"), reason: badJSON},
		"half of it":         {reply: said(`{"a":[1,2`), reason: badJSON},
		"fenced":             {reply: said("```json\n{\"a\":1}\n```"), seen: `{"a":1}`},
		"fence not closed":   {reply: said("```json\n{\"a\":1}\n"), reason: badJSON},
		"two values":         {reply: said(`{"a":1} {"a":2}`), reason: badJSON},
		"an array":           {reply: said(`[1]`), reason: badSchema},
		"null":               {reply: said(`null`), reason: badSchema},
		"white space":        {reply: said(" \n\t "), reason: badJSON},
		"10 MiB":             {reply: said(`{"a":"` + strings.Repeat("x", 10*mebibyte) + `"}`), reason: "output_too_large"},
	}
}

// poisons are all of them, by a name that no other's begins with.
func poisons() map[string]poison {
	all := map[string]poison{}
	wrapped := map[string]poison{
		"depth 999":   {reply: said(nested(999)), seen: nested(999)},
		"depth 1 000": {reply: said(nested(1000)), reason: "invalid_input"},
	}
	for pipeline, some := range map[string]map[string]poison{
		"poison_text": textPoisons(), "poison_json": jsonPoisons(), "poison_wrapped": wrapped,
	} {
		for name, one := range some {
			one.pipeline = pipeline
			one.requests = max(one.requests, 1)
			all["["+pipeline+": "+name+"]"] = one
		}
	}
	return all
}

// TestPoisonedAnswersHurtTheirRunsAlone lets a model say what no model should, to many runs at once, each beside a run that
// gets a usual answer in the same instant and so shares its groups: the neighbour finishes, and the poisoned run ends with a
// clear reason, or is done with the data as they were.
func TestPoisonedAnswersHurtTheirRunsAlone(t *testing.T) {
	p := harness.StartProvider(t)
	s := harness.Start(t, harness.Config{Provider: p})
	for _, source := range []string{poisonText, poisonJSON, poisonWrapped} {
		registerSource(t, s, source)
	}
	all := poisons()
	p.Inject(simulated.Fault{Kind: "latency", Argument: "500ms"}) // so that all answers come together
	for name, one := range all {
		p.Inject(simulated.Fault{Kind: "reply", Contains: name, Reply: &one.reply})
	}

	before := p.Report().Received
	runs, neighbours := map[string]string{}, []string{}
	var group errgroup.Group
	ids := make(chan [2]string, 2*len(all))
	for name, one := range all {
		for _, asked := range []string{name, "usual beside " + strings.Trim(name, "[]")} {
			group.Go(func() error {
				id, err := s.Submit(one.pipeline, "poison "+asked, map[string]any{"case": asked})
				ids <- [2]string{asked, id}
				return err
			})
		}
	}
	require.NoError(t, group.Wait())
	close(ids)
	requests := len(all)
	for named := range ids {
		if one, poisoned := all[named[0]]; poisoned {
			runs[named[0]], requests = named[1], requests+one.requests
		} else {
			neighbours = append(neighbours, named[1])
		}
	}

	for _, id := range neighbours {
		run := s.AwaitEnd(id)
		require.Equal(t, "done", run.Status, "%+v", run)
	}
	for name, one := range all {
		t.Run(name, func(t *testing.T) { one.requireEnd(t, s.For(t), runs[name]) })
	}
	require.Equal(t, requests, p.Report().Received-before, "requests that the provider got")
	requireNothingLeft(t, s)
}

// requireEnd waits for the end of the poisoned run and fails unless it is the one that is promised.
func (one poison) requireEnd(t *testing.T, s *harness.System, id string) {
	run := s.AwaitEnd(id)
	if one.reason != "" {
		require.Equal(t, "failed", run.Status, "%.2000s", run.Result)
		require.Equal(t, one.reason, run.Reason, run.Error)
		require.NotEmpty(t, run.Error)
		require.NotContains(t, run.Error, "\x00")
		require.Less(t, len(run.Error), 4096, "an explanation is for people")
	} else {
		require.Equal(t, "done", run.Status, "%s: %s", run.Reason, run.Error)
		var result struct{ Seen json.RawMessage }
		require.NoError(t, json.Unmarshal(run.Result, &result), "%.2000s", run.Result)
		require.Equal(t, exactly(t, one.seen), exactly(t, string(result.Seen)))
	}
	cost, err := run.CostSoFar.Float64()
	require.NoError(t, err)
	require.Equal(t, one.free, cost == 0, "the run has cost %s", run.CostSoFar)
	require.Equal(t, s.Text("SELECT trim_scale(sum(cost))::text FROM llm.llm_try WHERE run_id = $1", id), run.CostSoFar.String())
	require.Less(t, cost, 0.1, "an odd count costs no more than was reserved")
	tries := 0
	for _, call := range s.Calls(id) {
		tries += len(call.Tries)
	}
	require.Equal(t, one.requests, tries)
	require.True(t, one.kept(t, s, id), "the answer is kept byte for byte")
	if one.reason == "output_too_large" {
		took := s.Text(`SELECT extract(epoch FROM r.finished_at - t.finished_at)::text
			FROM core.pipeline_run r, llm.llm_try t WHERE r.id = $1 AND t.run_id = $1`, id)
		seconds, err := strconv.ParseFloat(took, 64)
		require.NoError(t, err)
		require.Less(t, seconds, slack(time.Second).Seconds(), "from the answer to the end of the run")
	}
}

// kept reports whether the call log has the answer as it was sent, as far as answers are read.
func (one poison) kept(t *testing.T, s *harness.System, id string) bool {
	t.Helper()
	var stored []byte
	require.NoError(t, s.DB.QueryRow(t.Context(),
		"SELECT coalesce(answer, '') FROM llm.llm_try WHERE run_id = $1 ORDER BY sent_at DESC LIMIT 1", id).Scan(&stored))
	sent := one.reply.Raw
	if len(sent) == 0 {
		sent = []byte(one.reply.Body)
	}
	return bytes.Equal(stored, sent[:min(len(sent), provider.MaxBody)])
}

// slack is what a promised time may take on a machine that is busy with other tests.
func slack(promised time.Duration) time.Duration { return promised + 10*time.Second }

// requireNothingLeft waits until nothing of ended runs is left that a worker could take, in the stream or in the table.
func requireNothingLeft(t *testing.T, s *harness.System) {
	t.Helper()
	awaitWaiting(t, s, 0)
	require.Zero(t, s.Count(`SELECT count(*) FROM core.step_live l JOIN core.pipeline_run r ON r.id = l.run_id
		WHERE r.finished_at IS NOT NULL`), "rows of runs that have ended")
}

// exactly is a JSON text as a value whose numbers are not rounded.
func exactly(t *testing.T, text string) (value any) {
	t.Helper()
	numbers := json.NewDecoder(strings.NewReader(text))
	numbers.UseNumber()
	require.NoError(t, numbers.Decode(&value))
	return value
}
