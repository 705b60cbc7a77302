package scenario

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
)

// problem is the body of a refusal.
type problem struct {
	Status int
	Reason string
	Detail string
	Errors []struct{ Field, Message string }
}

// steps begins a pipeline.
const steps = "name: bad\nversion: v1\nsteps:\n"

// TestI18_BadInputChangesNothing sends what nobody should: each is refused with the place and the reason, and the database
// is afterwards as it was before.
func TestI18_BadInputChangesNothing(t *testing.T) {
	const (
		asJSON = "application/json"
		asYAML = "application/yaml"
	)
	s := harness.Start(t, harness.Config{})
	tests := map[string]struct {
		path, contentType, body string
		noKey                   bool
		status                  int
		reason, field, message  string
	}{
		"unknown field": {
			path: "/v1/runs", contentType: asJSON, body: `{"pipeline": "document_extract", "inputs": {}}`,
			status: 400, reason: "INVALID_ARGUMENT", field: "inputs", message: "is not a field here",
		},
		"wrong type": {
			path: "/v1/jobs", contentType: asJSON, body: `{"model": "default", "messages": [{"role": "user", "content": 7}]}`,
			status: 400, reason: "INVALID_ARGUMENT", field: "messages[0].content", message: "line 1, column 63",
		},
		"missing key": {
			path: "/v1/runs", contentType: asJSON, body: `{"pipeline": "document_extract", "input": {"text": "x"}}`, noKey: true,
			status: 400, reason: "IDEMPOTENCY_KEY_MISSING", field: "idempotency_key", message: "is missing",
		},
		"malformed JSON": {
			path: "/v1/runs", contentType: asJSON, body: "{\n  \"pipeline\": \"p\",\n  \"input\" {}\n}",
			status: 400, reason: "MALFORMED_BODY", field: "line 3, column 11", message: "invalid character",
		},
		"body over the limit": {
			path: "/v1/runs", contentType: asJSON,
			body:   `{"pipeline": "document_extract", "input": {"text": "` + strings.Repeat("x", 100<<10) + `"}}`,
			status: 413, reason: "BODY_TOO_LARGE", message: "102400 bytes",
		},
		"document over the limit": {
			path: "/v1/documents", contentType: "text/plain", body: strings.Repeat("x", 10<<20+1),
			status: 413, reason: "BODY_TOO_LARGE", message: "10485760 bytes",
		},
		"unknown pipeline": {
			path: "/v1/runs", contentType: asJSON, body: `{"pipeline": "nothing:v7", "input": {}}`,
			status: 404, reason: "PIPELINE_NOT_FOUND", field: "pipeline", message: "does not name a stored pipeline",
		},
		"input against the schema": {
			path: "/v1/runs", contentType: asJSON, body: `{"pipeline": "document_extract", "input": {"text": 7}}`,
			status: 400, reason: "INPUT_INVALID", field: "input.text", message: "got number, want string",
		},
		"document that does not exist": {
			path: "/documents/01890000-0000-7000-8000-00000000ffff/extract", contentType: asJSON, body: `{}`,
			status: 404, reason: "DOCUMENT_NOT_FOUND", message: "there is no document",
		},
		"cycle": {
			path: "/v1/pipelines", contentType: asYAML,
			body:   steps + "  - {name: a, needs: [b], transform: 1}\n  - {name: b, needs: [a], transform: 1}\n",
			status: 400, reason: "PIPELINE_INVALID", field: "steps[0].needs", message: "line 4, column",
		},
		"unknown reference": {
			path: "/v1/pipelines", contentType: asYAML, body: steps + "  - name: a\n    transform: ${steps.nothing.output}\n",
			status: 400, reason: "PIPELINE_INVALID", field: "steps[0].transform", message: "line 5, column",
		},
		"inverted timeouts": {
			path: "/v1/pipelines", contentType: asYAML, body: steps + "  - {name: a, transform: 1, soft_timeout: 60s, hard_timeout: 30s}\n",
			status: 400, reason: "PIPELINE_INVALID", field: "steps[0].hard_timeout", message: "line 4, column",
		},
		"expression that does not compile": {
			path: "/v1/pipelines", contentType: asYAML, body: steps + "  - name: a\n    transform: ${input.text +}\n",
			status: 400, reason: "PIPELINE_INVALID", field: "steps[0].transform", message: "line 5, column",
		},
	}
	before := rows(t, s)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := s.For(t)
			key := "bad " + name
			if tt.noKey {
				key = ""
			}
			header := s.Header(key)
			header.Set("Content-Type", tt.contentType)
			refused, err := s.Try(s.Record().REST, http.MethodPost, tt.path, header, tt.body)
			require.NoError(t, err)
			require.Equal(t, "application/problem+json", refused.Header.Get("Content-Type"), "%s", refused.Body)
			var p problem
			require.Equal(t, tt.status, refused.Status, "%s", refused.Body)
			require.NoError(t, harness.Response{Body: refused.Body}.Decode(&p))
			require.Equal(t, tt.status, p.Status)
			require.Equal(t, tt.reason, p.Reason, "%s", refused.Body)
			if tt.field == "" {
				require.Contains(t, p.Detail, tt.message)
				return
			}
			require.NotEmpty(t, p.Errors, "%s", refused.Body)
			require.Equal(t, tt.field, p.Errors[0].Field)
			require.Contains(t, p.Errors[0].Message, tt.message)
		})
	}
	require.Equal(t, before, rows(t, s))
}

// rows counts the rows of every table but those in which the services keep their own leases.
func rows(t *testing.T, s *harness.System) map[string]int {
	t.Helper()
	const query = `SELECT oid::regclass::text FROM pg_class
		WHERE relnamespace::regnamespace::text IN ('core', 'llm', 'access') AND relkind IN ('r', 'p') AND NOT relispartition
		AND relname NOT IN ('runner', 'replica')`
	names, err := s.DB.Query(t.Context(), query)
	require.NoError(t, err)
	counts := map[string]int{}
	for names.Next() {
		var name string
		require.NoError(t, names.Scan(&name))
		counts[name] = 0
	}
	require.NoError(t, names.Err())
	for name := range counts {
		counts[name] = s.Count(fmt.Sprintf("SELECT count(*) FROM %s", name))
	}
	require.Positive(t, counts["core.pipeline"], "what is counted is what is used")
	return counts
}
