package scenario

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
)

// answer is what the server says to a step, and what it claims to have counted.
type answer struct {
	step, section   string
	content         any
	prompt, written int
}

// TestForeignServer runs a pipeline on an OpenAI-compatible server that was not written here, with nothing but an address, a
// key and a price.
func TestForeignServer(t *testing.T) {
	nothing := map[string]any{
		"contract_number": nil, "contract_date": nil, "party_a": nil, "party_b": nil, "subject": nil, "amount": nil,
		"currency": nil, "payment_term_days": nil, "valid_until": nil, "governing_law": nil,
	}
	with := func(name string, value any) map[string]any {
		fields := map[string]any{name: value}
		for n, v := range nothing {
			if n != name {
				fields[n] = v
			}
		}
		return fields
	}
	answers := []answer{
		{sectionsPrompt, "", map[string]any{"sections": []map[string]any{
			{"title": "Price", "text": "The price is EUR 1,250.50."}, {"title": "Law", "text": "The law of Estonia governs."},
		}}, 1200, 300},
		{fieldsPrompt, "Section: Price", with("amount", 1250.5), 200, 80},
		{fieldsPrompt, "Section: Law", with("governing_law", "law of Estonia"), 210, 90},
		{summaryPrompt, "", map[string]any{"fields": with("amount", 1250.5), "summary": "A sale under the law of Estonia."}, 400, 150},
	}
	server := harness.StartMockServer(t, fixtures(t, answers))
	s := harness.Start(t, harness.Config{Env: []string{
		"PAWL_OPENAI_BASE_URL=" + server.URL + "/v1", "OPENAI_API_KEY=" + harness.MockKey,
		"PAWL_OPENAI_MODEL=gpt-4.1-mini", "PAWL_OPENAI_PRICE=input=0.40,cached_input=0.10,output=1.60",
	}})
	id, err := extract(s, contract{name: "short", mediaType: "text/plain", text: "The price is EUR 1,250.50. The law of Estonia governs."}, "foreign")
	require.NoError(t, err)
	run := s.AwaitEnd(id)
	require.Equal(t, "done", run.Status, "%s: %s", run.Reason, run.Error)
	require.Equal(t, extraction{with("amount", 1250.5), "A sale under the law of Estonia."}, resultOf(t, run))
	// 2010 tokens in at 0.40, 620 tokens out at 1.60 US dollars per million.
	require.Equal(t, "0.001796", run.CostSoFar.String())

	statuses := server.Exchanges()
	slices.Sort(statuses)
	require.Equal(t, []int{200, 200, 200, 200, 500}, statuses, "every question once, and the one that failed once more")
	var in, out []int
	for _, call := range s.Calls(id) {
		last := call.Tries[len(call.Tries)-1]
		require.Equal(t, "openai", last.Provider)
		require.Equal(t, "gpt-4.1-mini", last.Model)
		require.Equal(t, 200, last.HTTPStatus)
		in, out = append(in, last.InputTokens), append(out, last.OutputTokens)
		if call.Step == "summary" {
			require.Len(t, call.Tries, 2)
			require.Equal(t, 500, call.Tries[0].HTTPStatus)
			require.Equal(t, "provider_500", call.Tries[0].Reason)
		}
	}
	slices.Sort(in)
	slices.Sort(out)
	require.Equal(t, []int{200, 210, 400, 1200}, in)
	require.Equal(t, []int{80, 90, 150, 300}, out)
}

// fixtures is the server's file: it fails the first request of the last step, and answers everything else.
func fixtures(t *testing.T, answers []answer) string {
	t.Helper()
	type object = map[string]any
	list := []object{{
		"match":    object{"systemMessage": summaryPrompt, "sequenceIndex": 0},
		"response": object{"status": 500, "error": object{"message": "The server had an error", "type": "server_error"}},
	}}
	for _, a := range answers {
		match := object{"systemMessage": a.step}
		if a.section != "" {
			match["userMessage"] = a.section
		}
		content, err := json.Marshal(a.content)
		require.NoError(t, err)
		list = append(list, object{"match": match, "response": object{
			"content": string(content), "usage": object{"prompt_tokens": a.prompt, "completion_tokens": a.written},
		}})
	}
	file, err := json.Marshal(object{"fixtures": list})
	require.NoError(t, err)
	return string(file)
}
