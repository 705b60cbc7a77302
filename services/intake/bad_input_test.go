package intake_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	pawlv1 "pawl.internal/gen/pawl/v1"
)

const (
	asJSON = "Content-Type: application/json"
	asYAML = "Content-Type: application/yaml"
	asText = "Content-Type: text/plain"
)

// TestI18_BadInput: every bad input is refused with its path and what would be right, and nobody behind intake hears of it.
func TestI18_BadInput(t *testing.T) {
	t.Parallel()
	const message = `"messages":[{"role":"user","content":"x"}]`
	step := func(rest string) string { return "name: p\nversion: v1\nsteps:\n" + rest }
	tests := map[string]struct {
		path, body, kind string
		status           int
		reason           string
		field            string // of the first violation
		message          string // is part of it, or of the detail when there is no violation
	}{
		// The body.
		"unknown field":            {"/v1/runs", `{"pipeline":"document_extract","inputs":{}}`, asJSON, 400, "INVALID_ARGUMENT", "inputs", "is not a field here"},
		"unknown field deep":       {"/v1/jobs", `{"model":"small","messages":[{"role":"user","text":"x"}]}`, asJSON, 400, "INVALID_ARGUMENT", "messages[0].text", "is not a field here; the fields are role, content (line 1, column 52)"},
		"wrong type":               {"/v1/runs", `{"pipeline":"document_extract","input":{},"priority":"high"}`, asJSON, 400, "INVALID_ARGUMENT", "priority", `must be a whole number from -2147483648 to 2147483647, not "high" (line 1, column 54)`},
		"wrong word":               {"/v1/runs", `{"pipeline":"document_extract","input":{},"class":"slow"}`, asJSON, 400, "INVALID_ARGUMENT", "class", "must be one of interactive, batch"},
		"malformed":                {"/v1/runs", "{\n  \"pipeline\": \"p\"\n  \"input\": {}\n}", asJSON, 400, "MALFORMED_BODY", "line 3, column 3", `invalid character '"' after object key:value pair (byte 22)`},
		"cut off":                  {"/v1/runs", `{"pipeline": "p", "input": {"text": "x`, asJSON, 400, "MALFORMED_BODY", "line 1, column 39", "unexpected end of JSON input"},
		"not UTF-8":                {"/v1/runs", "{\"pipeline\": \"p\", \"input\": \"\xff\"}", asJSON, 400, "MALFORMED_BODY", "line 1, column 29", "not valid UTF-8"},
		"too deep":                 {"/v1/runs", `{"pipeline":"document_extract","input":` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + `}`, asJSON, 400, "MALFORMED_BODY", "line 1, column 1039", "nested deeper than 1000"},
		"over the limit":           {"/v1/runs", `{"pipeline":"document_extract","input":{"text":"` + strings.Repeat("x", 100<<10) + `"}}`, asJSON, 413, "BODY_TOO_LARGE", "", "102400 bytes"},
		"document over the limit":  {"/v1/documents", strings.Repeat("x", 1<<20+1), asText, 413, "BODY_TOO_LARGE", "", "1048576 bytes"},
		"another type of document": {"/v1/documents", "%PDF-1.7", "Content-Type: application/pdf", 415, "UNSUPPORTED_MEDIA_TYPE", "", "text/plain or text/markdown"},
		"another type within JSON": {"/v1/documents", `{"text":"x","media_type":"text/html"}`, asJSON, 415, "UNSUPPORTED_MEDIA_TYPE", "media_type", "text/plain or text/markdown"},
		"another charset":          {"/v1/documents", `{"text":"x","media_type":"text/plain; charset=koi8-r"}`, asJSON, 415, "UNSUPPORTED_MEDIA_TYPE", "media_type", "text/plain or text/markdown"},
		"document in another code": {"/v1/documents", "\xf0\xf1", asText, 415, "UNSUPPORTED_MEDIA_TYPE", "", "not valid UTF-8"},
		"empty document":           {"/v1/documents", "", asText, 400, "INVALID_ARGUMENT", "text", "must not be empty"},

		// The request.
		"pipeline missing":         {"/v1/runs", `{"input":{}}`, asJSON, 400, "INVALID_ARGUMENT", "pipeline", "required"},
		"input missing":            {"/v1/runs", `{"pipeline":"document_extract"}`, asJSON, 400, "INVALID_ARGUMENT", "input", "required"},
		"pipeline's name":          {"/v1/runs", `{"pipeline":"Document Extract","input":{}}`, asJSON, 400, "INVALID_ARGUMENT", "pipeline", "name:version"},
		"unknown pipeline":         {"/v1/runs", `{"pipeline":"nothing","input":{}}`, asJSON, 404, "PIPELINE_NOT_FOUND", "pipeline", "does not name a stored pipeline"},
		"unknown version":          {"/v1/runs", `{"pipeline":"document_extract:v99","input":{}}`, asJSON, 404, "PIPELINE_NOT_FOUND", "pipeline", "does not name a stored pipeline"},
		"input against the schema": {"/v1/runs", `{"pipeline":"document_extract","input":{"text":""}}`, asJSON, 400, "INPUT_INVALID", "input.text", "minLength: got 0, want 1"},
		"input without a field":    {"/v1/runs", `{"pipeline":"document_extract","input":{}}`, asJSON, 400, "INPUT_INVALID", "input", "missing property 'text'"},
		"input of another kind":    {"/v1/runs", `{"pipeline":"document_extract","input":null}`, asJSON, 400, "INPUT_INVALID", "input", "got null, want object"},
		"input deep inside":        {"/v1/runs", `{"pipeline":"llm_completion","input":{"model":"small","messages":[{"role":"user","content":"x"},{"role":"bot","content":"x"}]}}`, asJSON, 400, "INPUT_INVALID", "input.messages[1].role", "value must be one of"},
		"name given twice":         {"/v1/runs", `{"pipeline":"document_extract","input":{"text":"x","text":"y"}}`, asJSON, 400, "INPUT_INVALID", "input", `the key "text" is given twice`},
		"half a surrogate pair":    {"/v1/runs", `{"pipeline":"document_extract","input":{"text":"\ud800"}}`, asJSON, 400, "INPUT_INVALID", "input", "surrogate"},
		"number without end":       {"/v1/runs", `{"pipeline":"document_extract","input":{"text":"x","n":1e999}}`, asJSON, 400, "INPUT_INVALID", "input", "out of range"},
		"priority":                 {"/v1/runs", `{"pipeline":"document_extract","input":{"text":"x"},"priority":1000}`, asJSON, 400, "INVALID_ARGUMENT", "priority", "less than or equal to 100"},
		"budget":                   {"/v1/runs", `{"pipeline":"document_extract","input":{"text":"x"},"budget_usd":"1e3"}`, asJSON, 400, "INVALID_ARGUMENT", "budget_usd", "an amount such as 0.50"},
		"budget beyond all money":  {"/v1/runs", `{"pipeline":"document_extract","input":{"text":"x"},"budget_usd":"9999999"}`, asJSON, 400, "INVALID_ARGUMENT", "budget_usd", "at most 9223372"},
		"deadline":                 {"/v1/runs", `{"pipeline":"document_extract","input":{"text":"x"},"deadline":"0.5s"}`, asJSON, 400, "INVALID_ARGUMENT", "deadline", "greater than or equal to 1s"},
		"label with U+0000":        {"/v1/runs", `{"pipeline":"document_extract","input":{"text":"x"},"labels":{"k":"\u0000"}}`, asJSON, 400, "INVALID_ARGUMENT", `labels["k"]`, "U+0000"},
		"entity with U+0000":       {"/v1/runs", `{"pipeline":"document_extract","input":{"text":"x"},"entity_id":"a\u0000"}`, asJSON, 400, "INVALID_ARGUMENT", "entity_id", "U+0000"},
		"callback to nowhere":      {"/v1/runs", `{"pipeline":"document_extract","input":{"text":"x"},"callback_url":"hook"}`, asJSON, 400, "INVALID_ARGUMENT", "callback_url", "URI"},
		"callback by mail":         {"/v1/runs", `{"pipeline":"document_extract","input":{"text":"x"},"callback_url":"mailto:a@example.com"}`, asJSON, 400, "INVALID_ARGUMENT", "callback_url", "https://"},
		"callback with password":   {"/v1/jobs", `{"model":"small",` + message + `,"callback_url":"https://a:b@example.com/"}`, asJSON, 400, "INVALID_ARGUMENT", "callback_url", "password"},
		"unknown model":            {"/v1/jobs", `{"model":"gpt-none",` + message + `}`, asJSON, 400, "MODEL_UNKNOWN", "model", "name of a route or of a model"},
		"no messages":              {"/v1/jobs", `{"model":"small","messages":[]}`, asJSON, 400, "INVALID_ARGUMENT", "messages", "at least 1 item"},
		"unknown role":             {"/v1/jobs", `{"model":"small","messages":[{"role":"tool","content":"x"}]}`, asJSON, 400, "INVALID_ARGUMENT", "messages[0].role", "must be in list"},
		"negative tokens":          {"/v1/jobs", `{"model":"small",` + message + `,"max_tokens":-1}`, asJSON, 400, "INVALID_ARGUMENT", "max_tokens", "greater than or equal to 0"},
		"no such document":         {"/documents/01890000-0000-7000-8000-00000000ffff/extract", "", asJSON, 404, "DOCUMENT_NOT_FOUND", "", "there is no document"},
		"document without id":      {"/documents/seven/extract", "", asJSON, 400, "INVALID_ARGUMENT", "document_id", "valid UUID"},

		// The pipeline.
		"YAML that is none":      {"/v1/pipelines", "name: [", asYAML, 400, "PIPELINE_INVALID", "", "line 1"},
		"unknown key":            {"/v1/pipelines", step("  - name: a\n    transformz: 1\n"), asYAML, 400, "PIPELINE_INVALID", "steps[0].transformz", `did you mean "transform"`},
		"cycle":                  {"/v1/pipelines", step("  - {name: a, needs: [b], transform: 1}\n  - {name: b, needs: [a], transform: 1}\n"), asYAML, 400, "PIPELINE_INVALID", "steps[0].needs", "line 4"},
		"unknown reference":      {"/v1/pipelines", step("  - name: a\n    transform: ${steps.nothing.output}\n"), asYAML, 400, "PIPELINE_INVALID", "steps[0].transform", "line 5"},
		"inverted timeouts":      {"/v1/pipelines", step("  - {name: a, transform: 1, soft_timeout: 60s, hard_timeout: 30s}\n"), asYAML, 400, "PIPELINE_INVALID", "steps[0].hard_timeout", "line 4"},
		"expression":             {"/v1/pipelines", step("  - name: a\n    transform: ${1 +}\n"), asYAML, 400, "PIPELINE_INVALID", "steps[0].transform", "line 5"},
		"pipeline in JSON":       {"/v1/pipelines", `{"spec":{"name":"p","version":"v1","steps":[{"name":"a","transform":"${nope}"}]}}`, asJSON, 400, "PIPELINE_INVALID", "spec.steps[0].transform", "nope"},
		"pipeline twice":         {"/v1/pipelines", `{"source":"x","spec":{}}`, asJSON, 400, "INVALID_ARGUMENT", "spec", "cannot be given together with source"},
		"no pipeline":            {"/v1/pipelines", `{}`, asJSON, 400, "INVALID_ARGUMENT", "pipeline", "exactly one field is required"},
		"pipeline over the size": {"/v1/pipelines", step("  - {name: a, transform: 1}\n#" + strings.Repeat("x", 100<<10)), asYAML, 413, "BODY_TOO_LARGE", "", "102400"},
	}
	b := setup(t)
	b.orchestrator.taken()
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			refused := b.call(t, b.acme, "POST", tt.path, tt.body, tt.kind, "Idempotency-Key: bad-"+strings.ReplaceAll(name, " ", "-"))
			p := refused.problem(t)
			require.Equal(t, tt.status, p.Status, refused.body)
			require.Equal(t, tt.reason, p.Reason, refused.body)
			require.NotEmpty(t, p.RequestID)
			if tt.field == "" && len(p.Errors) == 0 {
				require.Contains(t, p.Detail, tt.message)
			} else {
				require.Equal(t, tt.field, p.Errors[0].Field, refused.body)
				require.Contains(t, p.Errors[0].Message, tt.message)
			}
			for _, call := range b.orchestrator.taken() {
				require.NotContains(t, call, "Create")
			}
		})
	}
}

func TestI18_BadIdempotencyKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	creating := map[string]string{
		"/v1/runs":      `{"pipeline":"document_extract","input":{"text":"x"}}`,
		"/v1/jobs":      `{"model":"small","messages":[{"role":"user","content":"x"}]}`,
		"/v1/documents": `{"text":"x"}`,
		"/documents/01890000-0000-7000-8000-000000000001/extract": "",
	}
	for path, body := range creating {
		p := b.call(t, b.acme, "POST", path, body, asJSON).problem(t)
		require.Equal(t, 400, p.Status)
		require.Equal(t, "IDEMPOTENCY_KEY_MISSING", p.Reason, path)
		require.Equal(t, "idempotency_key", p.Errors[0].Field)
		for _, bad := range []string{`"open`, `a"b`, `"a" b`, `"\x"`, `""`, strings.Repeat("x", 256)} {
			p := b.call(t, b.acme, "POST", path, body, asJSON, "Idempotency-Key: "+bad).problem(t)
			require.Equal(t, 400, p.Status, bad)
			require.Equal(t, "idempotency_key", p.Errors[0].Field, bad)
		}
	}
	both := `{"pipeline":"document_extract","input":{"text":"x"},"idempotency_key":"a"}`
	require.Equal(t, 400, b.call(t, b.acme, "POST", "/v1/runs", both, asJSON, "Idempotency-Key: b").status)
	for _, call := range b.orchestrator.taken() {
		require.NotContains(t, call, "Create")
	}

	first := b.call(t, b.acme, "POST", "/v1/runs", both, asJSON)
	for _, same := range []string{`a`, `"a"`} {
		again := b.call(t, b.acme, "POST", "/v1/runs", creating["/v1/runs"], asJSON, "Idempotency-Key: "+same)
		require.Equal(t, first.member(t, "run_id"), again.member(t, "run_id"), "the field and the header are one key: %s", again.body)
	}
}

// TestBadInputOverGRPC: what REST refuses by itself, intake refuses too when it comes over gRPC.
func TestBadInputOverGRPC(t *testing.T) {
	t.Parallel()
	b := setup(t)
	runs, documents := pawlv1.NewRunServiceClient(b.conn(t)), pawlv1.NewDocumentServiceClient(b.conn(t))
	_, err := runs.CreateRun(as(t, b.acme), &pawlv1.CreateRunRequest{Pipeline: "document_extract", Input: &pawlv1.JsonValue{Json: "{"}, IdempotencyKey: "k"})
	require.EqualError(t, err, "input: must be a JSON document")
	_, err = runs.CreateRun(as(t, b.acme), &pawlv1.CreateRunRequest{
		Pipeline: "document_extract", Input: &pawlv1.JsonValue{Json: `"` + strings.Repeat("x", 100<<10) + `"`}, IdempotencyKey: "k",
	})
	require.ErrorContains(t, err, "at most 102400 are allowed")
	_, err = documents.CreateDocument(as(t, b.acme), &pawlv1.CreateDocumentRequest{Text: strings.Repeat("x", 1<<20+1), IdempotencyKey: "k"})
	require.ErrorContains(t, err, "at most 1048576 are allowed")
	_, err = runs.CreateRun(as(t, b.acme, "idempotency-key", `"from-metadata"`),
		&pawlv1.CreateRunRequest{Pipeline: "document_extract", Input: &pawlv1.JsonValue{Json: `{"text":"x"}`}})
	require.NoError(t, err)
	require.Equal(t, "from-metadata", b.orchestrator.created[0].GetIdempotency().GetKey())
}
