package main

import (
	"fmt"

	"github.com/getkin/kin-openapi/openapi3"
)

// contentLines is the type of JSON lines.
const contentLines = "application/jsonl"

// addBatchStreams describes the calls of batches that the proto files do not have as REST.
func addBatchStreams(doc *openapi3.T) error {
	create := doc.Paths.Value("/v1/batches")
	if create == nil || create.Post == nil {
		return fmt.Errorf("there is no POST /v1/batches")
	}
	doc.AddOperation("/v1/batches:upload", "POST", uploadOperation(create.Post))
	doc.AddOperation("/v1/batches/{batch_id}/results", "GET", resultsOperation())
	return nil
}

// uploadOperation describes the upload; what is like it in creating a batch is taken from there.
func uploadOperation(create *openapi3.Operation) *openapi3.Operation {
	o := openapi3.NewOperation()
	o.OperationID, o.Tags = "BatchService_UploadBatch", create.Tags
	o.Summary = "Accepts a batch of up to 100000 items as JSON lines, a batch item each."
	o.Description = "An upload that breaks off is repeated as it was, with the same key: it makes exactly what is missing. " +
		"Empty lines are passed over; in errors items go by their lines."
	query := func(name, description string, schema *openapi3.Schema) {
		p := openapi3.NewQueryParameter(name).WithSchema(schema)
		p.Description = description
		o.AddParameter(p)
	}
	query("pipeline", "Name of a pipeline (its newest version), or `name:version`.", openapi3.NewStringSchema())
	o.Parameters.GetByInAndName("query", "pipeline").Required = true
	query("label", "What the caller calls the batch.", openapi3.NewStringSchema())
	query("class", "The lane; batch if absent.", openapi3.NewStringSchema().WithEnum("interactive", "batch"))
	query("priority", "-100 to 100; higher goes first among the caller's own.", openapi3.NewInt32Schema())
	query("labels", "Labels of every item's run, as name:value; may be repeated.", openapi3.NewArraySchema().WithItems(openapi3.NewStringSchema()))
	query("callback_url", "Where `batch.completed` is sent.", openapi3.NewStringSchema())
	query("budget_usd", "The most that all items together may cost.", openapi3.NewStringSchema())
	query("item_budget_usd", "The most that one item may cost.", openapi3.NewStringSchema())
	query("deadline", "How long the batch may take, such as `3600s`.", openapi3.NewStringSchema())
	query("mode", "What becomes of a batch in which items are invalid; all_or_nothing if absent.",
		openapi3.NewStringSchema().WithEnum("all_or_nothing", "skip_invalid"))
	query("idempotency_key", "The key, for whoever cannot set the header.", openapi3.NewStringSchema())
	o.AddParameter(idempotencyKey())
	o.RequestBody = &openapi3.RequestBodyRef{Value: openapi3.NewRequestBody().WithRequired(true).
		WithContent(openapi3.NewContentWithSchema(openapi3.NewStringSchema(), []string{contentLines, "application/x-ndjson"}))}
	counts := openapi3.NewObjectSchema().
		WithProperty("batch_id", openapi3.NewStringSchema()).
		WithPropertyRef("status", openapi3.NewSchemaRef("#/components/schemas/BatchStatus", nil)).
		WithProperty("replayed", openapi3.NewBoolSchema()).
		WithProperty("created", openapi3.NewInt32Schema()).
		WithProperty("duplicates", openapi3.NewInt32Schema()).
		WithProperty("rejected", openapi3.NewInt32Schema())
	problems := openapi3.NewArraySchema()
	problems.Items = openapi3.NewSchemaRef("#/components/schemas/BatchItemResult", nil)
	problems.Description = "Items that were refused or were there already; at most 1000."
	counts.WithProperty("problems", problems)
	o.AddResponse(202, openapi3.NewResponse().WithDescription("Accepted; the batch's runs go on in the background.").
		WithJSONSchema(counts))
	o.Responses.Delete("default")
	o.Responses.Set("default", create.Responses.Default())
	return o
}

func resultsOperation() *openapi3.Operation {
	o := openapi3.NewOperation()
	o.OperationID, o.Tags = "BatchService_StreamBatchResults", []string{"BatchService"}
	o.Summary = "Sends the items of a batch that have ended as JSON lines, each as it ends."
	o.AddParameter(openapi3.NewPathParameter("batch_id").WithSchema(openapi3.NewStringSchema()))
	for _, parameter := range [][2]string{
		{"follow", "Whether to go on until the batch has ended."}, {"errors_only", "Only items that have no result."},
	} {
		p := openapi3.NewQueryParameter(parameter[0]).WithSchema(openapi3.NewBoolSchema())
		p.Description = parameter[1]
		o.AddParameter(p)
	}
	o.AddResponse(200, openapi3.NewResponse().
		WithDescription("A result a line. An answer that is cut off, and not ended, is not whole.").
		WithContent(openapi3.NewContentWithSchema(resultSchema(), []string{contentLines})))
	o.Responses.Delete("default")
	problem := openapi3.NewResponse().WithDescription("An error.").WithContent(openapi3.NewContentWithSchemaRef(
		openapi3.NewSchemaRef("#/components/schemas/"+problemName, nil), []string{contentProblem}))
	o.Responses.Set("default", &openapi3.ResponseRef{Value: problem})
	return o
}

// resultSchema is that of a line.
func resultSchema() *openapi3.Schema {
	return openapi3.NewObjectSchema().
		WithProperty("custom_id", openapi3.NewStringSchema()).
		WithProperty("run_id", openapi3.NewStringSchema()).
		WithPropertyRef("status", openapi3.NewSchemaRef("#/components/schemas/RunStatus", nil)).
		WithProperty("entity_id", openapi3.NewStringSchema()).
		WithPropertyRef("result", openapi3.NewSchemaRef("#/components/schemas/JsonValue", nil)).
		WithProperty("reason", openapi3.NewStringSchema()).
		WithProperty("error", openapi3.NewStringSchema()).
		WithProperty("cost_usd", openapi3.NewFloat64Schema()).
		WithProperty("finished_at", openapi3.NewDateTimeSchema())
}
