package pipeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"pawl.internal/services/internal/canon"
)

// readJSON reads a source of valid JSON. YAML's reader would take most of it, but not its escapes.
func readJSON(raw []byte, in source, found *problems) *node {
	if err := canon.Check(raw); err != nil {
		addJSONError(in, found, err)
		return nil
	}
	r := jsonReader{Decoder: json.NewDecoder(bytes.NewReader(raw)), in: in, found: found}
	r.UseNumber()
	return r.read(nil)
}

func addJSONError(in source, found *problems, err error) {
	at := Position{1, 1}
	message := err.Error()
	if bad, ok := errors.AsType[*canon.Error](err); ok {
		at, message = in.position(bad.Offset), bad.Message
	}
	found.add(at, nil, "not valid JSON: %s", message)
}

type jsonReader struct {
	*json.Decoder
	in    source
	found *problems
	nodes int
}

// read reads the next value. The text is known to be valid, so the reader has no errors to give.
func (r *jsonReader) read(where path) *node {
	n := &node{at: r.here()}
	token, _ := r.Token()
	if r.nodes++; r.nodes == maxNodes+1 {
		r.found.add(n.at, nil, "the pipeline has more than %d values", maxNodes)
	}
	if len(where) == maxDepth+1 {
		r.found.add(n.at, nil, "values are nested deeper than %d", maxDepth)
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '[' {
			n.kind = list
			for i := 0; r.More(); i++ {
				n.items = append(n.items, r.read(where.then(i)))
			}
		} else {
			n.kind = object
			r.object(n, where)
		}
		_, _ = r.Token() // the closing bracket
	case string:
		n.kind, n.value = text, token
	case bool:
		n.kind, n.value = boolean, map[bool]string{true: "true", false: "false"}[token]
	case json.Number:
		n.kind = number
		var err error
		if n.value, err = canon.Number(string(token)); err != nil {
			r.found.add(n.at, where, "%s; write it in quotes if it is a text", err)
			n.value = "0"
		}
	}
	return n
}

func (r *jsonReader) object(n *node, where path) {
	taken := map[string]bool{}
	for r.More() {
		at := r.here()
		token, _ := r.Token()
		key, _ := token.(string)
		value := r.read(where.then(key))
		if taken[key] {
			r.found.add(at, where.then(key), "is given twice")
			continue
		}
		taken[key] = true
		n.fields = append(n.fields, field{key, at, value})
	}
}

// here gives the place of the next token.
func (r *jsonReader) here() Position {
	offset := int(r.InputOffset())
	rest := r.in.text[offset:]
	return r.in.position(len(r.in.text) - len(strings.TrimLeft(rest, " \t\r\n,:")))
}
