package main

import (
	"os"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

const (
	swaggerFile = "../../gen/openapi/pawl.swagger.json"
	openapiFile = "../../gen/openapi/openapi.json"
)

func load(t *testing.T) *openapi3.T {
	t.Helper()
	swagger, err := os.ReadFile(swaggerFile)
	require.NoError(t, err)
	text, err := convert(swagger)
	require.NoError(t, err)
	doc, err := openapi3.NewLoader().LoadFromData(text)
	require.NoError(t, err)
	return doc
}

func TestTheCommittedDocumentIsCurrent(t *testing.T) {
	swagger, err := os.ReadFile(swaggerFile)
	require.NoError(t, err)
	text, err := convert(swagger)
	require.NoError(t, err)
	committed, err := os.ReadFile(openapiFile)
	require.NoError(t, err)
	require.Equal(t, string(committed), string(text), "run make gen")
}

func TestSchemas(t *testing.T) {
	schemas := load(t).Components.Schemas
	run := schemas["Run"].Value.Properties
	require.Equal(t, []any{"queued", "running", "needs_review", "compensating", "done", "failed", "cancelled"},
		schemas["RunStatus"].Value.Enum)
	require.NotContains(t, schemas["RunStatus"].Value.Description, "RUN_STATUS")
	require.True(t, run["cost_so_far_usd"].Value.Type.Is("number"))
	require.True(t, run["current_step"].Value.Nullable)
	require.True(t, schemas["Document"].Value.Properties["bytes"].Value.Type.Is("integer"))
	require.Nil(t, schemas["JsonValue"].Value.Type, "a JsonValue is any JSON value")
	require.NotContains(t, schemas["CreateRunRequest"].Value.Properties, "idempotency_key")
	require.Equal(t, []string{"pipeline", "input"}, schemas["CreateRunRequest"].Value.Required)
}

func TestOperations(t *testing.T) {
	paths := load(t).Paths
	submit := paths.Value("/v1/runs").Post
	require.NotNil(t, submit.Responses.Status(202))
	require.Nil(t, submit.Responses.Status(200))
	require.Contains(t, submit.Responses.Default().Value.Content, contentProblem)
	require.True(t, submit.Parameters.GetByInAndName("header", "Idempotency-Key").Required)
	require.Contains(t, paths.Value("/documents").Post.RequestBody.Value.Content, "text/markdown")
	require.Contains(t, paths.Value("/v1/pipelines").Post.RequestBody.Value.Content, "application/yaml")
	require.Contains(t, paths.Value("/v1/runs/{run_id}:watch").Get.Responses.Status(200).Value.Content, "text/event-stream")
	for path, item := range paths.Map() {
		for method, operation := range item.Operations() {
			for _, parameter := range operation.Parameters {
				require.NotContains(t, parameter.Value.Description, "_UNSPECIFIED", "%s %s", method, path)
			}
		}
	}
}

func TestConvertRefuses(t *testing.T) {
	_, err := convert([]byte("{"))
	require.ErrorContains(t, err, "read swagger")
	_, err = convert([]byte(`{"swagger":"2.0","paths":{},"definitions":{"A":{"type":"object"}}}`))
	require.ErrorContains(t, err, "there is no operation")
}
