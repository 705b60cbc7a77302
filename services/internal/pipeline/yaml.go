package pipeline

import (
	"bytes"
	"errors"
	"io"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"pawl.internal/services/internal/canon"
)

const (
	// maxNodes bounds the values of a source, aliases counted as often as they are used.
	maxNodes = 100_000
	// maxDepth bounds how deep values are nested; an alias inside its own anchor never ends.
	maxDepth = 200
)

// yamlLine is how the YAML reader tells a place.
var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// readYAML reads a source of YAML; nil if it cannot.
func readYAML(raw []byte, found *problems) *node {
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil {
		addYAMLError(found, err)
		return nil
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		if err != nil {
			addYAMLError(found, err)
			return nil
		}
		found.add(Position{second.Line, second.Column}, nil, "a file holds one pipeline; put the next document into a file of its own")
	}
	reader := yamlReader{found: found}
	return reader.read(document.Content[0], nil)
}

func addYAMLError(found *problems, err error) {
	if errors.Is(err, io.EOF) {
		found.add(Position{1, 1}, nil, "the file is empty")
		return
	}
	at := Position{Line: 1, Column: 1}
	match := yamlLine.FindStringSubmatch(err.Error())
	if len(match) > 1 && match[1] != "" {
		at.Line, _ = strconv.Atoi(match[1])
	}
	found.add(at, nil, "not valid YAML: %s", yamlLine.ReplaceAllString(err.Error(), ""))
}

// yamlReader turns YAML's values into JSON's.
type yamlReader struct {
	found *problems
	nodes int
}

func (r *yamlReader) read(from *yaml.Node, where path) *node {
	n := &node{at: Position{from.Line, from.Column}}
	if r.nodes++; r.nodes > maxNodes {
		if r.nodes == maxNodes+1 {
			r.found.add(n.at, nil, "the pipeline has more than %d values", maxNodes)
		}
		return n
	}
	if len(where) > maxDepth {
		r.found.add(n.at, nil, "values are nested deeper than %d", maxDepth)
		return n
	}
	switch from.Kind {
	case yaml.AliasNode:
		return r.read(from.Alias, where)
	case yaml.MappingNode:
		n.kind = object
		r.mapping(n, from.Content, where)
	case yaml.SequenceNode:
		n.kind = list
		for i, item := range from.Content {
			n.items = append(n.items, r.read(item, where.then(i)))
		}
	default:
		r.scalar(n, from, where)
	}
	return n
}

func (r *yamlReader) mapping(n *node, content []*yaml.Node, where path) {
	taken := map[string]bool{}
	for i := 0; i+1 < len(content); i += 2 {
		key := content[i]
		at := Position{key.Line, key.Column}
		switch {
		case key.Kind != yaml.ScalarNode:
			r.found.add(at, where, "a key must be a text")
		case key.ShortTag() == "!!merge":
			r.found.add(at, where, "<< is not supported; use an alias as a whole value")
		case taken[key.Value]:
			r.found.add(at, where.then(key.Value), "is given twice")
		default:
			taken[key.Value] = true
			n.fields = append(n.fields, field{key.Value, at, r.read(content[i+1], where.then(key.Value))})
		}
	}
}

func (r *yamlReader) scalar(n *node, from *yaml.Node, where path) {
	tag := from.ShortTag()
	if tag == "!!str" && from.Style == 0 && isOutOfRange(from.Value) { // the YAML reader takes 1e400 for a text
		tag = "!!float"
	}
	switch tag {
	case "!!null":
		n.kind = null
	case "!!bool":
		n.kind, n.value = boolean, strings.ToLower(from.Value)
	case "!!int", "!!float":
		n.kind = number
		var err error
		if n.value, err = yamlNumber(from.Value); err != nil {
			r.found.add(n.at, where, "%s; write it in quotes if it is a text", err)
			n.value = "0"
		}
	case "!!str", "!!timestamp":
		n.kind, n.value = text, from.Value
	default:
		r.found.add(n.at, where, "the type %s is not supported; remove it", tag)
	}
}

func isOutOfRange(literal string) bool {
	_, err := strconv.ParseFloat(literal, 64)
	return errors.Is(err, strconv.ErrRange)
}

// yamlNumber gives a number of YAML, which may be written with 0x, _ or +, in canonical form.
func yamlNumber(literal string) (string, error) {
	if whole, ok := new(big.Int).SetString(literal, 0); ok {
		literal = whole.String()
	}
	return canon.Number(strings.TrimPrefix(strings.ReplaceAll(literal, "_", ""), "+"))
}
