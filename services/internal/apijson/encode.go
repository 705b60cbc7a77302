package apijson

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"pawl.internal/services/internal/canon"
)

// Marshal returns the JSON form of m, without white space of its own.
func Marshal(m proto.Message) ([]byte, error) {
	return appendMessage(nil, m.ProtoReflect())
}

func appendMessage(dst []byte, m protoreflect.Message) ([]byte, error) {
	switch m.Descriptor().FullName() {
	case jsonValueName:
		return appendDocument(dst, m)
	case timestampName, durationName, valueName, structName, listName:
		return appendWellKnown(dst, m)
	default:
		return appendFields(dst, m)
	}
}

// appendDocument writes a JsonValue as it is. A text that is no JSON would spoil everything around it.
func appendDocument(dst []byte, m protoreflect.Message) ([]byte, error) {
	text := m.Get(m.Descriptor().Fields().ByName("json")).String()
	if text == "" {
		return append(dst, "null"...), nil
	}
	if !json.Valid([]byte(text)) {
		return nil, fmt.Errorf("a %s of %d bytes is not valid JSON", jsonValueName, len(text))
	}
	return append(dst, text...), nil
}

func appendWellKnown(dst []byte, m protoreflect.Message) ([]byte, error) {
	text, err := protojson.Marshal(m.Interface())
	if err != nil {
		return nil, err
	}
	// protojson varies its white space on purpose; the canonical form does not.
	if text, err = canon.JSON(text); err != nil {
		return nil, err
	}
	return append(dst, text...), nil
}

func appendFields(dst []byte, m protoreflect.Message) ([]byte, error) {
	dst = append(dst, '{')
	first := true
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if !shown(m, field) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		var err error
		if dst, err = appendField(append(append(dst, '"'), string(field.Name())+`":`...), m, field); err != nil {
			return nil, fmt.Errorf("%s: %w", field.Name(), err)
		}
	}
	return append(dst, '}'), nil
}

// shown says whether a field appears: the rule is in the package comment.
func shown(m protoreflect.Message, field protoreflect.FieldDescriptor) bool {
	switch {
	case m.Has(field) || isJSONNull(field):
		return true
	case field.HasPresence() || field.IsMap():
		return false
	case field.IsList():
		return true
	case field.Kind() == protoreflect.EnumKind || field.Kind() == protoreflect.BytesKind:
		return false
	default:
		return field.Kind() != protoreflect.StringKind || isJSONNumber(field)
	}
}

func appendField(dst []byte, m protoreflect.Message, field protoreflect.FieldDescriptor) ([]byte, error) {
	switch {
	case field.HasPresence() && !m.Has(field):
		return append(dst, "null"...), nil
	case field.IsMap():
		return appendMap(dst, m.Get(field).Map(), field.MapValue())
	case field.IsList():
		return appendList(dst, m.Get(field).List(), field)
	default:
		return appendValue(dst, m.Get(field), field)
	}
}

func appendList(dst []byte, list protoreflect.List, field protoreflect.FieldDescriptor) ([]byte, error) {
	dst = append(dst, '[')
	for i := range list.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendValue(dst, list.Get(i), field); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return append(dst, ']'), nil
}

func appendMap(dst []byte, entries protoreflect.Map, value protoreflect.FieldDescriptor) ([]byte, error) {
	var keys []protoreflect.MapKey
	entries.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, key)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return cmp.Compare(a.String(), b.String()) })
	dst = append(dst, '{')
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = canon.AppendString(dst, key.String()); err != nil {
			return nil, err
		}
		if dst, err = appendValue(append(dst, ':'), entries.Get(key), value); err != nil {
			return nil, fmt.Errorf("[%q]: %w", key.String(), err)
		}
	}
	return append(dst, '}'), nil
}

func appendValue(dst []byte, value protoreflect.Value, field protoreflect.FieldDescriptor) ([]byte, error) {
	switch field.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return appendMessage(dst, value.Message())
	case protoreflect.EnumKind:
		return appendEnum(dst, value.Enum(), field.Enum())
	case protoreflect.StringKind:
		if isJSONNumber(field) {
			return appendNumber(dst, value.String())
		}
		return canon.AppendString(dst, value.String())
	case protoreflect.BytesKind:
		return canon.AppendString(dst, base64.StdEncoding.EncodeToString(value.Bytes()))
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return appendFloat(dst, value.Float())
	default:
		return append(dst, value.String()...), nil // booleans and integers
	}
}

// appendEnum writes a number that this build has no word for as the number: better than losing it.
func appendEnum(dst []byte, value protoreflect.EnumNumber, enum protoreflect.EnumDescriptor) ([]byte, error) {
	known := enum.Values().ByNumber(value)
	if known == nil {
		return strconv.AppendInt(dst, int64(value), 10), nil
	}
	return canon.AppendString(dst, Word(known))
}

// appendNumber writes the digits as they are; an absent number is 0.
func appendNumber(dst []byte, digits string) ([]byte, error) {
	if digits == "" {
		return append(dst, '0'), nil
	}
	if !isNumber([]byte(digits)) {
		return nil, fmt.Errorf("%q is not a number", digits)
	}
	return append(dst, digits...), nil
}

func isNumber(text []byte) bool {
	return len(text) > 0 && (text[0] == '-' || '0' <= text[0] && text[0] <= '9') && json.Valid(text)
}

func appendFloat(dst []byte, value float64) ([]byte, error) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return nil, fmt.Errorf("%v has no JSON form", value)
	}
	text, err := canon.Number(strconv.FormatFloat(value, 'g', -1, 64))
	return append(dst, text...), err
}
