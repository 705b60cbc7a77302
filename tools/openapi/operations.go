package main

import (
	"fmt"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

const contentProblem = "application/problem+json"

// answer is what REST says of a successful call beyond what the proto files do.
type answer struct {
	status      int
	description string
	// keyed calls take an Idempotency-Key.
	keyed bool
	// bodies are the types, besides JSON, in which the thing itself may be sent.
	bodies []string
}

// answers lists the calls whose answer is not 200, or whose body may be something else than JSON.
func answers() map[string]answer {
	yaml := []string{"application/yaml"}
	return map[string]answer{
		"RunService_CreateRun":             {202, "Accepted; the run goes on in the background.", true, nil},
		"JobService_CreateJob":             {202, "Accepted; the job goes on in the background.", true, nil},
		"BatchService_CreateBatch":         {202, "Accepted; the batch's runs go on in the background.", true, nil},
		"DocumentService_ExtractDocument":  {202, "Accepted; the run goes on in the background.", true, nil},
		"DocumentService_CreateDocument":   {201, "Stored.", true, []string{"text/plain", "text/markdown"}},
		"PipelineService_CreatePipeline":   {201, "Stored; 200 when it was stored before.", false, yaml},
		"PipelineService_ValidatePipeline": {200, "Checked.", false, yaml},
		"TenantService_CreateTenant":       {201, "Made.", false, nil},
		"TenantService_CreateKey":          {201, "Made; the key is shown here and never again.", false, nil},
		"TenantService_RotateKey":          {201, "Made; the new key is shown here and never again.", false, nil},
	}
}

func fixOperations(doc *openapi3.T) error {
	special := answers()
	seen := map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			if err := fixOperation(operation, special, seen); err != nil {
				return fmt.Errorf("%s %s: %w", method, path, err)
			}
		}
	}
	for id := range special {
		if !seen[id] {
			return fmt.Errorf("there is no operation %s", id)
		}
	}
	return nil
}

func fixOperation(operation *openapi3.Operation, special map[string]answer, seen map[string]bool) error {
	operation.Summary = strings.ReplaceAll(operation.Summary, "\n", " ")
	for _, parameter := range operation.Parameters {
		fixParameter(parameter.Value)
	}
	if operation.RequestBody != nil {
		operation.RequestBody.Value.Extensions = nil // the parameter's name in Swagger
	}
	ok := operation.Responses.Status(200)
	if ok == nil || ok.Value == nil {
		return fmt.Errorf("%s has no response 200", operation.OperationID)
	}
	description := "The answer."
	id := strings.TrimRight(operation.OperationID, "0123456789") // an additional path has a number
	if a, found := special[id]; found {
		seen[id] = true
		description = a.description
		adapt(operation, a)
	}
	ok.Value.Description = &description
	problem := openapi3.NewResponse().WithDescription("An error.").WithContent(openapi3.NewContentWithSchemaRef(
		openapi3.NewSchemaRef("#/components/schemas/"+problemName, nil), []string{contentProblem}))
	operation.Responses.Set("default", &openapi3.ResponseRef{Value: problem})
	return nil
}

func fixParameter(parameter *openapi3.Parameter) {
	fixSchema(parameter.Schema)
	parameter.Description, _, _ = strings.Cut(parameter.Description, "\n\n - ") // the words are in the schema
}

func adapt(operation *openapi3.Operation, a answer) {
	if a.status != 200 {
		operation.Responses.Set(fmt.Sprint(a.status), operation.Responses.Status(200))
		operation.Responses.Delete("200")
	}
	if a.keyed {
		operation.AddParameter(idempotencyKey())
	}
	text := openapi3.NewSchemaRef("", openapi3.NewStringSchema())
	for _, mediaType := range a.bodies {
		operation.RequestBody.Value.Content[mediaType] = &openapi3.MediaType{Schema: text}
	}
}

func idempotencyKey() *openapi3.Parameter {
	const longest = 255
	key := openapi3.NewHeaderParameter("Idempotency-Key").WithRequired(true).
		WithSchema(openapi3.NewStringSchema().WithMinLength(1).WithMaxLength(longest))
	key.Description = "New for every new request, such as a UUID, and the same when the request is repeated. " +
		"With another request it is refused (422)."
	return key
}

// addWatch describes the one call that the proto files do not have as REST.
func addWatch(doc *openapi3.T) {
	for _, path := range []string{"/v1/runs/{run_id}:watch", "/runs/{run_id}:watch"} {
		events := openapi3.NewResponse().
			WithDescription("The run now and after every change, as events `state`, and at its end `done`; `data` is the run.").
			WithContent(openapi3.NewContentWithSchema(openapi3.NewStringSchema(), []string{"text/event-stream"}))
		last := openapi3.NewHeaderParameter("Last-Event-ID").WithSchema(openapi3.NewStringSchema())
		last.Description = "Id of the last event that the caller has; only news is sent then."
		operation := openapi3.NewOperation()
		operation.OperationID, operation.Tags = "RunService_WatchRun", []string{"RunService"}
		if !strings.HasPrefix(path, "/v1/") {
			operation.OperationID += "2"
		}
		operation.Summary = "Watches a run by server-sent events until it has ended."
		operation.AddParameter(openapi3.NewPathParameter("run_id").WithSchema(openapi3.NewStringSchema()))
		operation.AddParameter(last)
		operation.AddResponse(200, events)
		operation.AddResponse(204, openapi3.NewResponse().WithDescription("The caller has the last state already."))
		doc.AddOperation(path, "GET", operation)
	}
}

// dropUnused removes schemas that nothing refers to, such as those of answers of which REST shows only a part.
func dropUnused(doc *openapi3.T) {
	for changed := true; changed; {
		changed = false
		text, err := doc.MarshalJSON()
		if err != nil {
			return // convert fails in the same way and says so
		}
		for name := range doc.Components.Schemas {
			if !strings.Contains(string(text), `"#/components/schemas/`+name+`"`) {
				delete(doc.Components.Schemas, name)
				changed = true
			}
		}
	}
}
