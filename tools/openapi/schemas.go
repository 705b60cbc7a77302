package main

import (
	"regexp"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	pawlv1 "pawl.internal/gen/pawl/v1"
)

const (
	apiPackage  = "pawl.v1."
	keyProperty = "idempotency_key"
	problemName = "Problem"
)

// fixSchemas gives the schemas the JSON form of the API.
func fixSchemas(doc *openapi3.T) {
	schemas := doc.Components.Schemas
	for name, ref := range schemas {
		fixSchema(ref)
		if message := messageOf(name); message != nil {
			fixFields(ref.Value, message)
		}
	}
	schemas["JsonValue"] = openapi3.NewSchemaRef("", &openapi3.Schema{Description: "Any JSON value, kept verbatim."})
	schemas[problemName] = openapi3.NewSchemaRef("", problemSchema())
}

// fixSchema corrects what follows from the type alone, here and below.
func fixSchema(ref *openapi3.SchemaRef) {
	if ref == nil || ref.Ref != "" || ref.Value == nil {
		return
	}
	schema := ref.Value
	if len(schema.Enum) > 0 {
		fixEnum(schema)
	}
	if schema.Type.Is("string") && (schema.Format == "int64" || schema.Format == "uint64") {
		schema.Type = &openapi3.Types{"integer"}
	}
	for _, property := range schema.Properties {
		fixSchema(property)
	}
	fixSchema(schema.Items)
	fixSchema(schema.AdditionalProperties.Schema)
}

// fixEnum replaces the names of an enumeration by its words, also in the description, and leaves its zero out.
func fixEnum(schema *openapi3.Schema) {
	first, isText := schema.Enum[0].(string)
	prefix, isOurs := strings.CutSuffix(first, "UNSPECIFIED")
	if !isText || !isOurs {
		return
	}
	words := make([]any, 0, len(schema.Enum)-1)
	for _, name := range schema.Enum[1:] {
		if text, ok := name.(string); ok {
			words = append(words, strings.ToLower(strings.TrimPrefix(text, prefix)))
		}
	}
	schema.Enum, schema.Default = words, nil
	schema.Description = wordsIn(schema.Description, prefix)
}

// wordsIn rewrites a generated description, which has a line for each name.
func wordsIn(description, prefix string) string {
	zero := regexp.MustCompile(`(?m)^ - ` + prefix + `UNSPECIFIED:.*\n?`)
	names := regexp.MustCompile(prefix + `[A-Z_]+`)
	text := names.ReplaceAllStringFunc(zero.ReplaceAllString(description, ""), func(name string) string {
		return strings.ToLower(strings.TrimPrefix(name, prefix))
	})
	return strings.TrimSpace(text)
}

// fixFields corrects what the options of the fields say.
func fixFields(schema *openapi3.Schema, message protoreflect.MessageDescriptor) {
	for name, property := range schema.Properties {
		field := message.Fields().ByName(protoreflect.Name(name))
		if field == nil || property.Value == nil {
			continue
		}
		if marked(field, pawlv1.E_JsonNumber) {
			property.Value.Type = &openapi3.Types{"number"}
		}
		if marked(field, pawlv1.E_JsonNull) {
			property.Value.Nullable = true
		}
	}
	// REST takes the key from a header.
	delete(schema.Properties, keyProperty)
	schema.Required = without(schema.Required, keyProperty)
}

func marked(field protoreflect.FieldDescriptor, option protoreflect.ExtensionType) bool {
	set, isBool := proto.GetExtension(field.Options(), option).(bool)
	return isBool && set
}

// messageOf finds the message of a schema, whose name is the message's, or for the body of a call beside parameters in its
// path that of the method with "Body"; nil if there is none.
func messageOf(schema string) protoreflect.MessageDescriptor {
	name := schema
	if method, isBody := strings.CutSuffix(name, "Body"); isBody {
		name = method + "Request"
	}
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(apiPackage + name))
	if err != nil {
		return nil
	}
	message, _ := found.(protoreflect.MessageDescriptor)
	return message
}

func without(list []string, item string) []string {
	var rest []string
	for _, each := range list {
		if each != item {
			rest = append(rest, each)
		}
	}
	return rest
}

// problemSchema is the body of every error.
func problemSchema() *openapi3.Schema {
	text := func(description string) *openapi3.Schema {
		return &openapi3.Schema{Type: &openapi3.Types{"string"}, Description: description}
	}
	field := openapi3.NewObjectSchema().
		WithProperty("field", text("Path of what is wrong, or its place in the text.")).
		WithProperty("message", text("What is wrong, and what would be right."))
	problem := openapi3.NewObjectSchema().
		WithProperty("type", text("Identifies the kind of problem.")).
		WithProperty("title", text("The kind of problem in words.")).
		WithProperty("status", openapi3.NewIntegerSchema()).
		WithProperty("detail", text("What happened.")).
		WithProperty("instance", text("The path that was called.")).
		WithProperty("code", text("Canonical code, such as INVALID_ARGUMENT.")).
		WithProperty("reason", text("Stable reason, such as INPUT_INVALID.")).
		WithProperty("metadata", openapi3.NewObjectSchema().WithAdditionalProperties(text(""))).
		WithProperty("errors", openapi3.NewArraySchema().WithItems(field)).
		WithProperty("retry_after_s", openapi3.NewIntegerSchema()).
		WithProperty("request_id", text("Names the request in the server's log."))
	problem.Description = "An error (RFC 9457)."
	problem.Required = []string{"type", "title", "status", "detail", "instance", "code", "reason", "request_id"}
	return problem
}
