// Package pipeline is the language in which pipelines are written: it reads YAML or JSON, reports everything that is
// wrong with it at once, each with its place and with what would be right, and makes of it what the services work with.
//
// One schema, pawl.v1.PipelineSpec, serves YAML, JSON and protobuf. The source text is what is stored: compiled again it
// gives the same [Compiled], which keeps what the message cannot, the order of a schema's fields and numbers beyond 2^53.
// Whoever has a message turns it into a source first ([Source]).
//
// Compiling runs in stages that each go on after problems: the text into values that know their places; the values
// against the message's fields; the rules in the schema (protovalidate); then the meaning: needs and cycles, references,
// expressions against the shapes of the data, JSON Schemas, timeouts, policies.
//
// [Compiler], [Compiled] and [Step] are immutable and safe for concurrent use. Nothing here reads a clock, a file or the
// network.
package pipeline

import (
	"crypto/sha256"
	"embed"
	"fmt"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/encoding/protojson"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/canon"
	"pawl.internal/services/internal/expr"
)

// maxSteps is what the schema's rules allow; beyond it, the problem that they report is enough.
const maxSteps = 100

// Compiler compiles pipelines.
type Compiler struct {
	env       *expr.Env
	validator protovalidate.Validator
}

// NewCompiler makes a compiler; one serves a whole process.
func NewCompiler() (*Compiler, error) {
	env, err := expr.NewEnv()
	if err != nil {
		return nil, err
	}
	validator, err := protovalidate.New()
	if err != nil {
		return nil, fmt.Errorf("build validator: %w", err)
	}
	return &Compiler{env: env, validator: validator}, nil
}

// Compile compiles a source of YAML or JSON. The file's name is only for messages, and may be empty. The error is of type
// [Problems] and has all that is wrong.
func (c *Compiler) Compile(file string, source []byte) (*Compiled, error) {
	found := newProblems(file)
	doc := parse(source, c.validator, found)
	if doc == nil || len(doc.spec.GetSteps()) > maxSteps {
		return nil, found.err()
	}
	b := &build{env: c.env, doc: doc, found: found}
	compiled := b.pipeline()
	if err := found.err(); err != nil {
		return nil, err
	}
	canonical, err := canon.JSON(doc.root.appendJSON(nil))
	if err != nil {
		return nil, Problems{{File: file, Message: err.Error()}}
	}
	compiled.Source = string(source)
	compiled.Digest = sha256.Sum256(canonical)
	return compiled, nil
}

// Source gives a message as a source of JSON.
func Source(spec *pawlv1.PipelineSpec) ([]byte, error) {
	source, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("write pipeline as JSON: %w", err)
	}
	return source, nil
}

// The files are here and not in examples/pipelines because Go embeds only what lies below a package; there, links lead
// here.
//
//go:embed builtin/*.yaml
var builtin embed.FS

// Builtin is a pipeline that ships with Pawl.
type Builtin struct {
	File   string
	Source []byte
}

// Builtins gives the pipelines that ship with Pawl, by name.
func Builtins() ([]Builtin, error) {
	entries, err := builtin.ReadDir("builtin")
	if err != nil {
		return nil, err
	}
	var all []Builtin
	for _, entry := range entries {
		source, err := builtin.ReadFile("builtin/" + entry.Name())
		if err != nil {
			return nil, err
		}
		all = append(all, Builtin{entry.Name(), source})
	}
	return all, nil
}
