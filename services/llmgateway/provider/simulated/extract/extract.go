// Package extract answers structured-output requests by rule: given a conversation and a JSON Schema, it returns a value of
// that schema whose contents come from the conversation's own text.
//
// It is what the simulated provider has in place of a model. It walks the schema; for every property it tries, in this
// order, a value that the prompt already carries as JSON, a rule for the kind of thing that the property's name asks for
// (dates, sums, parties, terms of a contract, in Russian and English), and a guess by type, format, label or cue word. What
// it does not find is null where the schema allows it. The same input always gives the same bytes.
//
// It does not validate: an answer fits every schema made of the usual keywords (types, enum, const, required, properties,
// items, anyOf with null, $ref, lengths, bounds), and a schema with others may reject it, as a model's answer may be rejected.
package extract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
)

// Prompt is the part of a conversation that an answer is drawn from.
type Prompt struct {
	// Instructions is what the system messages say. It explains enum values ("billing: invoices, refunds") and is not read
	// for facts.
	Instructions string
	// Text is what the user messages say, joined by blank lines: the document, or JSON with values found earlier.
	Text string
}

// maxSchemas bounds the cache of compiled schemas; a program uses a handful.
const maxSchemas = 256

// Engine answers prompts. It is safe for concurrent use and keeps nothing but compiled schemas.
type Engine struct {
	mu      sync.Mutex
	schemas map[string]*node // by the schema's bytes
}

// New returns an Engine.
func New() *Engine { return &Engine{schemas: map[string]*node{}} }

// Answer returns a JSON value of the schema. The error says what in the schema cannot be read.
func (e *Engine) Answer(p Prompt, schema []byte) ([]byte, error) {
	n, err := e.schema(schema)
	if err != nil {
		return nil, err
	}
	return newFiller(p, n).value(property{node: n}), nil
}

// Say returns a short text for a prompt that asks for no particular form.
func (e *Engine) Say(p Prompt) string {
	t := newText(p.Text)
	if t.russian() {
		return "Ответ имитатора: " + t.lead(leadRunes)
	}
	return "Simulated answer: " + t.lead(leadRunes)
}

func (e *Engine) schema(raw []byte) (*node, error) {
	e.mu.Lock()
	n, ok := e.schemas[string(raw)]
	e.mu.Unlock()
	if ok {
		return n, nil
	}
	n, err := compile(raw)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.schemas) >= maxSchemas {
		clear(e.schemas)
	}
	e.schemas[string(raw)] = n
	return n, nil
}

// encode returns v as JSON with <, > and & as they are.
func encode(v any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return []byte("null") // only strings, numbers, booleans and decoded JSON come here
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
