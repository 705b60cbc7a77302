// Command openapi turns the Swagger file that protoc-gen-openapiv2 makes of the proto files into the OpenAPI 3 document that
// intake serves: with the JSON form that REST really has, its status codes, its errors and its headers.
//
//	openapi pawl.swagger.json openapi.json
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi2conv"
	"github.com/getkin/kin-openapi/openapi3"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: openapi pawl.swagger.json openapi.json")
	}
	swagger, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	document, err := convert(swagger)
	if err != nil {
		return err
	}
	return os.WriteFile(args[1], document, 0o644) //nolint:gosec // a file of the repository, for everybody
}

// convert returns the OpenAPI document of a Swagger document.
func convert(swagger []byte) ([]byte, error) {
	var v2 openapi2.T
	// Names that only one package has need no package.
	swagger = bytes.ReplaceAll(swagger, []byte(`"`+apiPackage), []byte(`"`))
	swagger = bytes.ReplaceAll(swagger, []byte("/definitions/"+apiPackage), []byte("/definitions/"))
	if err := json.Unmarshal(swagger, &v2); err != nil {
		return nil, fmt.Errorf("read swagger: %w", err)
	}
	doc, err := openapi2conv.ToV3(&v2)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	describe(doc)
	fixSchemas(doc)
	if err := fixOperations(doc); err != nil {
		return nil, err
	}
	addWatch(doc)
	if err := addBatchStreams(doc); err != nil {
		return nil, err
	}
	dropUnused(doc)
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), check(text)
}

// check reads the document as its users will.
func check(text []byte) error {
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData(text)
	if err != nil {
		return fmt.Errorf("the result cannot be read: %w", err)
	}
	if err := doc.Validate(loader.Context); err != nil {
		return fmt.Errorf("the result is not OpenAPI: %w", err)
	}
	return nil
}

func describe(doc *openapi3.T) {
	doc.Info = &openapi3.Info{
		Title:   "Pawl",
		Version: "v1",
		Description: "Pawl runs multi-step LLM pipelines in the background and never does, or pays for, a finished step again. " +
			"Names are snake_case, the words of enumerations are in lower case, and errors are problem+json (RFC 9457).",
	}
	doc.Servers = openapi3.Servers{{URL: "/"}}
	doc.Components.SecuritySchemes = openapi3.SecuritySchemes{
		"api_key": {Value: &openapi3.SecurityScheme{
			Type: "http", Scheme: "bearer", Description: "An API key: pawl_<prefix>_<secret>.",
		}},
	}
	doc.Security = openapi3.SecurityRequirements{{"api_key": {}}}
}
