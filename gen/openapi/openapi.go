// Package openapi carries the description of the REST API.
package openapi

import _ "embed"

// Document is the OpenAPI 3 document, as JSON. It is made from the proto files by `make gen`.
//
//go:embed openapi.json
var Document []byte
