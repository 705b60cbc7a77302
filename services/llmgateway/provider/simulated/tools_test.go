package simulated_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/internal/golden"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// TestToolsInEveryFormat shows what each format does with tools, images and structured answers.
func TestToolsInEveryFormat(t *testing.T) {
	const (
		properties = `"properties":{"amount":{"type":"number"},"currency":{"type":"string"}}`
		chatTools  = `"tools":[{"type":"function","function":{"name":"look_up","parameters":{}}},` +
			`{"type":"function","function":{"name":"book","parameters":{"type":"object",` + properties + `}}}]`
		messageTools = `"tools":[{"name":"look_up","input_schema":{"type":"object"}},{"name":"book","input_schema":{"type":"object",` + properties + `}}]`
		geminiTools  = `"tools":[{"functionDeclarations":[{"name":"look_up"},{"name":"book","parameters":{"type":"OBJECT","properties":` +
			`{"amount":{"type":"NUMBER"},"currency":{"type":"STRING","nullable":true}}}}]}]`
		text = `Please book it: the total price is EUR 75.`
	)
	chat := `{"model":"sim-small","messages":[{"role":"user","content":"` + text + `"}],`
	messages := `{"model":"sim-small","max_tokens":500,"messages":[{"role":"user","content":"` + text + `"}],`
	contents := `{"contents":[{"parts":[{"text":"` + text + `"}]}],`
	s := serve(t, simulated.Config{}, clocktest.New())
	var all strings.Builder
	for _, c := range []struct{ name, path, body string }{
		{"openai auto", "/v1/chat/completions", chat + chatTools + `}`},
		{"openai streamed", "/v1/chat/completions", chat + chatTools + `,"stream":true}`},
		{"openai none", "/v1/chat/completions", chat + chatTools + `,"tool_choice":"none"}`},
		{"openai named", "/v1/chat/completions", chat + chatTools + `,"tool_choice":{"type":"function","function":{"name":"look_up"}}}`},
		{"openai result", "/v1/chat/completions", `{"model":"sim-small","messages":[{"role":"user","content":"` + text + `"},` +
			`{"role":"assistant","content":null,"tool_calls":[]},{"role":"tool","content":"booked"}],` + chatTools + `}`},
		{"openai image", "/v1/chat/completions", `{"model":"sim-small","reasoning_effort":"high","messages":[{"role":"user","content":[` +
			`{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"text","text":"What is it?"}]}]}`},
		{"anthropic auto", "/v1/messages", messages + messageTools + `}`},
		{"anthropic streamed", "/v1/messages", messages + messageTools + `,"stream":true,"thinking":{"type":"enabled","budget_tokens":1024}}`},
		{"anthropic named", "/v1/messages", messages + messageTools + `,"tool_choice":{"type":"tool","name":"look_up"}}`},
		{"anthropic result", "/v1/messages", `{"model":"sim-small","max_tokens":50,"messages":[{"role":"user","content":"` + text + `"},{"role":"assistant",` +
			`"content":[{"type":"tool_use","id":"1","name":"book","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1",` +
			`"content":[{"type":"text","text":"booked"}]}]}],` + messageTools + `}`},
		{"anthropic image", "/v1/messages", `{"model":"sim-small","max_tokens":50,"system":[{"type":"text","text":"Be brief."}],"messages":[{"role":"user",` +
			`"content":[{"type":"image","source":{"type":"base64"}},{"type":"text","text":"What is it?"}]}]}`},
		{"anthropic structured", "/v1/messages", messages + `"output_config":{"format":{"type":"json_schema","schema":{"type":"object",` + properties + `}}}}`},
		{"anthropic structured as before", "/v1/messages", messages + `"output_format":{"type":"json_schema","schema":{"type":"object",` + properties + `}}}`},
		{"gemini auto", "/v1beta/models/sim-small:generateContent", contents + geminiTools + `}`},
		{"gemini named", "/v1beta/models/sim-small:generateContent", contents + geminiTools +
			`,"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["look_up"]}}}`},
		{"gemini result", "/v1beta/models/sim-small:generateContent", `{"contents":[{"role":"user","parts":[{"text":"` + text + `"}]},{"role":"model","parts":` +
			`[{"functionCall":{"name":"book","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"book","response":{"ok":true}}}]}],` + geminiTools + `}`},
		{"gemini structured", "/v1beta/models/sim-small:generateContent", contents +
			`"generationConfig":{"responseMimeType":"application/json","responseSchema":{"type":"OBJECT","properties":{"amount":{"type":"NUMBER","nullable":true},` +
			`"law":{"type":"STRING","nullable":true}},"propertyOrdering":["law","amount"]}}}`},
		{"gemini JSON schema", "/v1beta/models/sim-small:generateContent", contents +
			`"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"object",` + properties + `}}}`},
		{"gemini thoughts", "/v1beta/models/sim-small:streamGenerateContent", `{"system_instruction":{"parts":[{"text":"Be brief."}]},"contents":[{"parts":` +
			`[{"text":"What is it?"},{"inlineData":{"data":"AAAA"}}]}],"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingBudget":100}}}`},
	} {
		r := s.send(t, "POST", c.path, c.body, "Anthropic-Version", "2023-06-01")
		require.Equal(t, 200, r.status, "%s: %s", c.name, r.body)
		all.WriteString("== " + c.name + "\n" + r.shown())
		if strings.Contains(c.path, "stream") {
			require.True(t, json.Valid([]byte(r.body)), "a stream without alt=sse is a list: %s", r.body)
		}
	}
	golden.Assert(t, "testdata/tools.golden", []byte(all.String()))
}

// TestBadRequestsOfOtherFormats sends what each format refuses.
func TestBadRequestsOfOtherFormats(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	tools := `"tools":[{"type":"function","function":{"name":"a"}}]`
	for _, c := range []struct {
		path, body string
		status     int
		message    string
	}{
		{"/v1/chat/completions", `{"model":"sim-small","messages":[{"role":"user","content":"x"}],"tools":[{"type":"web"}]}`, 400, "must be function"},
		{"/v1/chat/completions", `{"model":"sim-small","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{}}]}`, 400, "must have a name"},
		{"/v1/chat/completions", `{"model":"sim-small","messages":[{"role":"user","content":"x"}],` + tools + `,"tool_choice":"maybe"}`, 400, "auto, none, required"},
		{"/v1/chat/completions", `{"model":"sim-small","messages":[{"role":"user","content":"x"}],` + tools + `,"tool_choice":{"function":{"name":"b"}}}`, 400, "not among tools"},
		{"/v1/chat/completions", `{"model":"sim-small","messages":[{"role":"user","content":"x"}],"tool_choice":"required"}`, 400, "not among tools"},
		{"/v1/embeddings", `{"model":"sim-small","input":""}`, 400, "input 0 is empty"},
		{"/v1/embeddings", `{"model":"sim-small","input":{}}`, 400, "input must be a text"},
		{"/v1/embeddings", `{"model":"sim-small","input":"x","dimensions":5000}`, 400, "from 1 to 3072"},
		{"/v1/embeddings", `{"model":"sim-small","input":"x","encoding_format":"hex"}`, 400, "float or base64"},
		{"/v1/embeddings", `{"model":"other","input":"x"}`, 404, `The model \"other\" does not exist`},
		{"/v1/messages", `{"model":"sim-small","messages":[]}`, 400, "max_tokens: Field required"},
		{"/v1/messages", `{"model":"sim-small","max_tokens":0,"messages":[]}`, 400, "max_tokens: must be at least 1"},
		{"/v1/messages", `{"model":"sim-small","max_tokens":1,"messages":[]}`, 400, "at least one message"},
		{"/v1/messages", `{"model":"sim-small","max_tokens":1,"messages":[{"role":"system","content":"x"}]}`, 400, "user or assistant"},
		{"/v1/messages", `{"model":"sim-small","max_tokens":1,"messages":[{"role":"user","content":[]}]}`, 400, "all of them are empty"},
		{"/v1/messages", `{"model":"sim-small","max_tokens":1,"messages":[{"role":"user","content":1}]}`, 400, "a string or a list of blocks"},
		{"/v1/messages", `{"model":"claude","max_tokens":1,"messages":[{"role":"user","content":"x"}]}`, 404, "model: claude"},
		{"/v1/messages", `{"model":"sim-small","max_tokens":1,"messages":[{"role":"user","content":"x"}],"tool_choice":{"type":"tool","name":"a"}}`, 400, "not among tools"},
		{"/v1/messages", `{"model":"sim-small","max_tokens":1,"messages":[{"role":"user","content":"x"}],"output_format":{"type":"text"}}`, 400, "json_schema"},
		{"/v1beta/models/sim-small:generateContent", `{}`, 400, "contents is not specified"},
		{"/v1beta/models/sim-small:generateContent", `[]`, 400, "Invalid JSON payload"},
		{"/v1beta/models/sim-small:sing", `{}`, 404, `no method \"sing\"`},
		{"/v1beta/models/sim-small", `{}`, 404, "no method"},
		{"/v1beta/models/gemini-x:generateContent", `{"contents":[{"parts":[{"text":"x"}]}]}`, 404, "models/gemini-x is not found"},
		{"/v1beta/models/sim-small:generateContent", `{"contents":[{"parts":[{"text":"x"}]}],"generationConfig":{"candidateCount":2}}`, 400, "one candidate"},
		{"/v1beta/models/sim-small:generateContent", `{"contents":[{"parts":[{"text":"x"}]}],"generationConfig":{"responseSchema":7}}`, 400, "must be an object"},
		{"/v1beta/models/sim-small:embedContent", `{"content":{"parts":[{"text":""}]}}`, 400, "input 0 is empty"},
	} {
		r := s.send(t, "POST", c.path, c.body, "Anthropic-Version", "2023-06-01")
		require.Equal(t, c.status, r.status, "%s %s: %s", c.path, c.body, r.body)
		require.Contains(t, r.body, c.message)
		require.Contains(t, r.body, `"error":`)
	}
	r := s.send(t, "POST", "/v1/messages", `{}`)
	require.Equal(t, 400, r.status)
	require.Contains(t, r.body, "anthropic-version: header is required")
}
