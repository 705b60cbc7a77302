package pipeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	validatepb "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/suggest"
)

// maxSource bounds a source, in bytes.
const maxSource = 1 << 20

// document is a source that was read: the pipeline as a message, and as nodes that know their places and keep what the
// message cannot (the order of a schema's fields, numbers beyond 2^53).
type document struct {
	source source
	root   *node
	spec   *pawlv1.PipelineSpec
}

// parse reads a source and checks it against the message's schema. The document is what is left without the values that
// have problems; nil if nothing can be made of the source.
func parse(raw []byte, validator protovalidate.Validator, found *problems) *document {
	if len(raw) > maxSource {
		found.add(Position{}, nil, "the pipeline is larger than %d KiB", maxSource>>10)
		return nil
	}
	in := newSource(raw)
	root := read(raw, in, found)
	if root == nil {
		return nil
	}
	if root.kind != object {
		found.add(root.at, nil, "a pipeline is an object with name, version and steps, and this is %s", root.kind)
		return nil
	}
	spec := &pawlv1.PipelineSpec{}
	shaped := shaper{found}.message(root, spec.ProtoReflect().Descriptor(), nil)
	if err := protojson.Unmarshal(shaped.appendJSON(nil), spec); err != nil {
		found.add(root.at, nil, "%s", strings.TrimPrefix(err.Error(), "proto:"))
		return nil
	}
	checkRules(spec, validator, root, found)
	return &document{source: in, root: shaped, spec: spec}
}

// read reads JSON as JSON, and all else as YAML. What begins as JSON and is neither is reported as bad JSON.
func read(raw []byte, in source, found *problems) *node {
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		return readYAML(raw, found)
	}
	if !json.Valid(raw) {
		if root := readYAML(raw, newProblems("")); root != nil {
			return readYAML(raw, found)
		}
	}
	return readJSON(raw, in, found)
}

// shaper compares values with a message's schema: unknown fields and wrong types. It gives back what is right.
type shaper struct{ found *problems }

func (s shaper) message(n *node, schema protoreflect.MessageDescriptor, where path) *node {
	switch schema.FullName() {
	case "google.protobuf.Value":
		return n
	case "google.protobuf.Struct":
		return s.want(n, object, where)
	case "google.protobuf.ListValue":
		return s.want(n, list, where)
	}
	if s.want(n, object, where) == nil {
		return nil
	}
	shaped := &node{kind: object, at: n.at}
	chosen := map[protoreflect.FullName]string{}
	for _, f := range n.fields {
		known := schema.Fields().ByName(protoreflect.Name(f.key))
		if known == nil {
			s.unknown(f, schema, where)
			continue
		}
		if choice := known.ContainingOneof(); choice != nil && !choice.IsSynthetic() {
			if other, taken := chosen[choice.FullName()]; taken {
				s.found.add(f.at, where.then(f.key), "there is %s already; give only one of %s", other, strings.Join(names(choice.Fields()), ", "))
				continue
			}
			chosen[choice.FullName()] = f.key
		}
		if value := s.field(f.value, known, where.then(f.key)); value != nil {
			shaped.fields = append(shaped.fields, field{f.key, f.at, value})
		}
	}
	return shaped
}

func (s shaper) field(n *node, schema protoreflect.FieldDescriptor, where path) *node {
	switch {
	case schema.IsMap():
		if s.want(n, object, where) == nil {
			return nil
		}
		shaped := &node{kind: object, at: n.at}
		for _, f := range n.fields {
			if value := s.single(f.value, schema.MapValue(), where.then(f.key)); value != nil {
				shaped.fields = append(shaped.fields, field{f.key, f.at, value})
			}
		}
		return shaped
	case schema.IsList():
		if s.want(n, list, where) == nil {
			return nil
		}
		shaped := &node{kind: list, at: n.at}
		for i, item := range n.items {
			value := s.single(item, schema, where.then(i))
			if value == nil { // keeps the place, so that indices stay right
				value = emptyValue(item, schema)
			}
			shaped.items = append(shaped.items, value)
		}
		return shaped
	default:
		return s.single(n, schema, where)
	}
}

// emptyValue stands in for a list's item of a wrong type.
func emptyValue(n *node, schema protoreflect.FieldDescriptor) *node {
	if schema.Kind() == protoreflect.MessageKind {
		return &node{kind: object, at: n.at}
	}
	return &node{kind: text, at: n.at}
}

func (s shaper) single(n *node, schema protoreflect.FieldDescriptor, where path) *node {
	switch schema.Kind() {
	case protoreflect.MessageKind:
		return s.message(n, schema.Message(), where)
	case protoreflect.StringKind:
		return s.want(n, text, where)
	case protoreflect.BoolKind:
		return s.want(n, boolean, where)
	case protoreflect.Int32Kind:
		if s.want(n, number, where) == nil {
			return nil
		}
		if strings.ContainsAny(n.value, ".e") || len(n.value) > len("999999999") {
			s.found.add(n.at, where, "must be a whole number of nine digits at most, and is %s", n.value)
			return nil
		}
		return n
	default:
		return s.want(n, number, where)
	}
}

// want gives the value if it is of a kind, and reports it if not.
func (s shaper) want(n *node, wanted kind, where path) *node {
	switch {
	case n.kind == wanted:
		return n
	case n.kind == null:
		s.found.add(n.at, where, "has no value; give it %s, or leave it out", wanted)
	case wanted == text && (n.kind == number || n.kind == boolean):
		s.found.add(n.at, where, "must be a text, and is %s; write %q", n.kind, n.value)
	default:
		s.found.add(n.at, where, "must be %s, and is %s", wanted, n.kind)
	}
	return nil
}

// unknown reports an unknown field. The one that was probably meant is not reported as missing besides.
func (s shaper) unknown(f field, schema protoreflect.MessageDescriptor, where path) {
	known := slices.Sorted(slices.Values(names(schema.Fields())))
	meant, kinds := suggest.Closest(f.key, slices.Values(known)), schema.Oneofs().ByName("kind")
	hint := "; known here are " + strings.Join(known, ", ")
	switch {
	case meant != "":
		hint = suggest.DidYouMean(f.key, slices.Values(known))
		s.found.mark(where.then(meant))
	case kinds != nil:
		hint = "; the kinds of steps are " + strings.Join(names(kinds.Fields()), ", ")
		s.found.mark(where.then("kind"))
	}
	s.found.add(f.at, where.then(f.key), "unknown field%s", hint)
}

func names(fields protoreflect.FieldDescriptors) []string {
	all := make([]string, fields.Len())
	for i := range all {
		all[i] = string(fields.Get(i).Name())
	}
	return all
}

// checkRules checks the rules that stand beside the fields in the schema.
func checkRules(spec *pawlv1.PipelineSpec, validator protovalidate.Validator, root *node, found *problems) {
	err := validator.Validate(spec)
	if err == nil {
		return
	}
	invalid, ok := errors.AsType[*protovalidate.ValidationError](err)
	if !ok {
		found.add(root.at, nil, "%s", err)
		return
	}
	type broken struct {
		where   path
		message string
	}
	var news []broken
	for _, violation := range invalid.Violations {
		if where := rulePath(violation); !found.reported(where) && !kindReported(violation, where, found) {
			news = append(news, broken{where, ruleMessage(violation, root.has(where))})
		}
	}
	for _, b := range news {
		found.add(root.find(b.where).at, b.where, "%s", b.message)
	}
}

// rulePath gives the path of the value that breaks a rule; of a choice, the path of the message that lacks it.
func rulePath(violation *protovalidate.Violation) path {
	var where path
	for _, element := range violation.Proto.GetField().GetElements() {
		where = where.then(element.GetFieldName())
		switch element.GetSubscript().(type) {
		case *validatepb.FieldPathElement_Index:
			where = where.then(int(element.GetIndex())) //nolint:gosec // an index of a list of ours
		case *validatepb.FieldPathElement_StringKey:
			where = where.then(element.GetStringKey())
		}
	}
	if isChoice(violation) {
		return where[:len(where)-1]
	}
	return where
}

// isChoice says whether the rule is that one of several fields must be given: what a step does.
func isChoice(violation *protovalidate.Violation) bool {
	return violation.FieldDescriptor == nil && violation.Proto.GetRuleId() == "required"
}

// kindReported says whether a step lacks its kind only because there is a problem with it.
func kindReported(violation *protovalidate.Violation, where path, found *problems) bool {
	return isChoice(violation) && slices.ContainsFunc(append(stepKinds(), "kind"), func(field string) bool {
		return found.reported(where.then(field))
	})
}

func stepKinds() []string {
	return names((&pawlv1.Step{}).ProtoReflect().Descriptor().Oneofs().ByName("kind").Fields())
}

func ruleMessage(violation *protovalidate.Violation, given bool) string {
	message := violation.Proto.GetMessage()
	switch {
	case isChoice(violation):
		return "does nothing; give it " + either(stepKinds())
	case violation.Proto.GetRuleId() == "required" && given:
		return "is empty"
	case violation.Proto.GetRuleId() == "required":
		return "is missing"
	case violation.Proto.GetRuleId() == "string.in":
		words := texts(violation.RuleValue.List())
		return "must be " + either(words) + suggest.DidYouMean(violation.FieldValue.String(), slices.Values(words))
	case !given:
		return "is missing; it " + message
	default:
		return message
	}
}

func texts(list protoreflect.List) []string {
	all := make([]string, list.Len())
	for i := range all {
		all[i] = list.Get(i).String()
	}
	return all
}

// either lists words of which one is to be chosen.
func either(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
