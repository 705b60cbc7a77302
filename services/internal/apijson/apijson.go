// Package apijson is the JSON form of Pawl's messages: what REST callers send and receive, and what the command line
// prints with --json. It follows the descriptors, so that a new message needs no code here.
//
// It differs from the canonical JSON form of protobuf where people read it: names are snake_case, the words of an
// enumeration are in lower case and without prefix, 64-bit integers are numbers, a pawl.v1.JsonValue is the document
// itself, byte for byte, and a string field marked pawl.v1.json_number is a number with all its digits. Numbers, booleans,
// words and lists are always there, because their zero is an answer; texts, maps and messages are left out when they are
// empty, except that fields marked pawl.v1.json_null are null.
//
// Reading is strict: every unknown field, wrong type, repeated field and unreadable text is refused with its path and
// position. The functions are pure and safe for concurrent use.
package apijson

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pawlv1 "pawl.internal/gen/pawl/v1"
)

// unspecified ends the name of every enumeration's zero, which stands for an absent word.
const unspecified = "UNSPECIFIED"

// jsonValueName and the names below are of the message types that have a form of their own.
const (
	jsonValueName = protoreflect.FullName("pawl.v1.JsonValue")
	timestampName = protoreflect.FullName("google.protobuf.Timestamp")
	durationName  = protoreflect.FullName("google.protobuf.Duration")
	valueName     = protoreflect.FullName("google.protobuf.Value")
	structName    = protoreflect.FullName("google.protobuf.Struct")
	listName      = protoreflect.FullName("google.protobuf.ListValue")
)

// Word returns the word that stands for an enumeration's value: RUN_STATUS_NEEDS_REVIEW is "needs_review".
func Word(value protoreflect.EnumValueDescriptor) string {
	enum, isEnum := value.Parent().(protoreflect.EnumDescriptor)
	if !isEnum {
		return string(value.Name())
	}
	return strings.ToLower(strings.TrimPrefix(string(value.Name()), prefix(enum)))
}

// WordOf is Word of a value itself; "unknown" for a number that this build has no name for.
func WordOf(value protoreflect.Enum) string {
	if named := value.Descriptor().Values().ByNumber(value.Number()); named != nil {
		return Word(named)
	}
	return "unknown"
}

// words lists what may be written for an enumeration; its zero may not.
func words(enum protoreflect.EnumDescriptor) []string {
	var list []string
	for i := range enum.Values().Len() {
		if value := enum.Values().Get(i); value.Number() != 0 {
			list = append(list, Word(value))
		}
	}
	return list
}

// number returns the value that a word stands for.
func number(enum protoreflect.EnumDescriptor, word string) (protoreflect.EnumNumber, bool) {
	value := enum.Values().ByName(protoreflect.Name(prefix(enum) + strings.ToUpper(word)))
	if value == nil || value.Number() == 0 || Word(value) != word {
		return 0, false
	}
	return value.Number(), true
}

func prefix(enum protoreflect.EnumDescriptor) string {
	zero := enum.Values().ByNumber(0)
	if zero == nil {
		return ""
	}
	before, found := strings.CutSuffix(string(zero.Name()), unspecified)
	if !found {
		return ""
	}
	return before
}

func isJSONNumber(field protoreflect.FieldDescriptor) bool {
	return marked(field, pawlv1.E_JsonNumber)
}

func isJSONNull(field protoreflect.FieldDescriptor) bool {
	return marked(field, pawlv1.E_JsonNull)
}

func marked(field protoreflect.FieldDescriptor, extension protoreflect.ExtensionType) bool {
	set, isBool := proto.GetExtension(field.Options(), extension).(bool)
	return isBool && set
}
