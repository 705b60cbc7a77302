package apijson

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	"pawl.internal/services/internal/canon"
	"pawl.internal/services/internal/fault"
)

// maxViolations bounds what is reported at once; a text that is wrong in more places was not meant for this message.
const maxViolations = 20

// Unmarshal reads one JSON object into m, which should be empty. Errors are of type *fault.Error: MALFORMED_BODY for what
// is no JSON, with line and column; INVALID_ARGUMENT for JSON that does not fit, with every path.
func Unmarshal(raw []byte, m proto.Message) error {
	if err := checkText(raw); err != nil {
		return err
	}
	d := &decoder{raw: raw}
	d.message(trim(value{text: raw}), "", m.ProtoReflect())
	if len(d.violations) > 0 {
		return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, d.violations...)
	}
	return nil
}

// decoder collects what is wrong with one text, which checkText has found to be JSON.
type decoder struct {
	raw        []byte
	violations []fault.Violation
}

func (d *decoder) message(v value, path string, m protoreflect.Message) {
	if v.kind() != object {
		d.mismatch(v, path, "an object")
		return
	}
	seen := make(map[protoreflect.FieldNumber]bool)
	for _, member := range members(v) {
		at := join(path, member.key)
		field := m.Descriptor().Fields().ByName(protoreflect.Name(member.key))
		switch {
		case field == nil:
			d.refuse(member.value, at, "is not a field here; the fields are "+names(m.Descriptor()))
		case seen[field.Number()]:
			d.refuse(member.value, at, "is given twice")
		default:
			seen[field.Number()] = true
			d.field(member.value, at, m, field)
		}
	}
}

func (d *decoder) field(v value, path string, m protoreflect.Message, field protoreflect.FieldDescriptor) {
	if v.kind() == null && !takesNull(field) {
		return // as if it were absent
	}
	if group := field.ContainingOneof(); group != nil {
		if other := m.WhichOneof(group); other != nil {
			d.refuse(v, path, fmt.Sprintf("cannot be given together with %s", other.Name()))
			return
		}
	}
	switch {
	case field.IsMap():
		d.entries(v, path, m.Mutable(field).Map(), field)
	case field.IsList():
		d.list(v, path, m.Mutable(field).List(), field)
	default:
		if parsed, ok := d.single(v, path, field, m.NewField(field)); ok {
			m.Set(field, parsed)
		}
	}
}

// takesNull says whether null is a value of the field, and not its absence.
func takesNull(field protoreflect.FieldDescriptor) bool {
	if field.Kind() != protoreflect.MessageKind || field.IsList() || field.IsMap() {
		return false
	}
	name := field.Message().FullName()
	return name == jsonValueName || name == valueName
}

func (d *decoder) list(v value, path string, list protoreflect.List, field protoreflect.FieldDescriptor) {
	if v.kind() != array {
		d.mismatch(v, path, "a list")
		return
	}
	for i, item := range elements(v) {
		if parsed, ok := d.single(item, fmt.Sprintf("%s[%d]", path, i), field, list.NewElement()); ok {
			list.Append(parsed)
		}
	}
}

func (d *decoder) entries(v value, path string, entries protoreflect.Map, field protoreflect.FieldDescriptor) {
	if v.kind() != object {
		d.mismatch(v, path, "an object")
		return
	}
	for _, member := range members(v) {
		at, key := join(path, member.key), protoreflect.ValueOfString(member.key).MapKey()
		switch parsed, ok := d.single(member.value, at, field.MapValue(), entries.NewValue()); {
		case entries.Has(key):
			d.refuse(member.value, at, "is given twice")
		case strings.ContainsRune(member.key, utf8.RuneError):
			d.refuse(member.value, at, "has a name with a character that is none")
		case ok:
			entries.Set(key, parsed)
		}
	}
}

// single reads one value; for a message into empty, which is returned.
func (d *decoder) single(v value, path string, field protoreflect.FieldDescriptor, empty protoreflect.Value) (protoreflect.Value, bool) {
	before := len(d.violations)
	if field.Kind() == protoreflect.MessageKind {
		d.nested(v, path, empty.Message())
		return empty, len(d.violations) == before
	}
	parsed, want := scalar(v, field)
	if want != "" {
		d.mismatch(v, path, want)
	}
	return parsed, want == ""
}

func (d *decoder) nested(v value, path string, m protoreflect.Message) {
	switch name := m.Descriptor().FullName(); name {
	case jsonValueName:
		m.Set(m.Descriptor().Fields().ByName("json"), protoreflect.ValueOfString(string(v.text)))
	case timestampName, durationName, valueName, structName, listName:
		if err := protojson.Unmarshal(v.text, m.Interface()); err != nil {
			d.refuse(v, path, "must be "+wellKnown(name))
		}
	default:
		d.message(v, path, m)
	}
}

// wellKnown says what a value of the type looks like.
func wellKnown(name protoreflect.FullName) string {
	const plain = " without numbers beyond a float64, names given twice, or half surrogate pairs"
	switch name {
	case timestampName:
		return `a time such as "2026-01-31T12:00:00Z"`
	case durationName:
		return `a duration in seconds such as "3.5s"`
	case structName:
		return "an object" + plain
	case listName:
		return "a list" + plain
	default:
		return "a value" + plain
	}
}

// scalar reads a text, number, word or boolean; want says what would be right when v is none.
func scalar(v value, field protoreflect.FieldDescriptor) (parsed protoreflect.Value, want string) {
	if field.Kind() == protoreflect.StringKind && isJSONNumber(field) {
		return protoreflect.ValueOfString(string(v.text)), unless(v.kind() == numeric, "a number")
	}
	if field.Kind() == protoreflect.BoolKind {
		return protoreflect.ValueOfBool(string(v.text) == "true"), unless(v.kind() == boolean, "true or false")
	}
	if isQuoted(field.Kind()) {
		text, ok := v.unquoted()
		if !ok {
			return parsed, wanted(field)
		}
		return fromText(text, field)
	}
	if v.kind() != numeric {
		return parsed, wanted(field)
	}
	return fromText(string(v.text), field)
}

// isQuoted says whether values of the kind stand in quotes.
func isQuoted(kind protoreflect.Kind) bool {
	return kind == protoreflect.StringKind || kind == protoreflect.EnumKind || kind == protoreflect.BytesKind
}

func unless(ok bool, want string) string {
	if ok {
		return ""
	}
	return want
}

// fromText reads a scalar that is given as plain text: unquoted, or a query parameter. want is empty when it fits.
func fromText(text string, field protoreflect.FieldDescriptor) (parsed protoreflect.Value, want string) {
	var err error
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text), unless(utf8.ValidString(text), wanted(field)+" in UTF-8")
	case protoreflect.EnumKind:
		found, ok := number(field.Enum(), text)
		return protoreflect.ValueOfEnum(found), unless(ok, wanted(field))
	case protoreflect.BytesKind:
		var decoded []byte
		decoded, err = base64.StdEncoding.DecodeString(text)
		parsed = protoreflect.ValueOfBytes(decoded)
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(text == "true"), unless(text == "true" || text == "false", wanted(field))
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return float(text, field)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		var n int64
		n, err = strconv.ParseInt(text, 10, 32)
		parsed = protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		parsed = protoreflect.ValueOfInt64(n)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		var n uint64
		n, err = strconv.ParseUint(text, 10, 32)
		parsed = protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		var n uint64
		n, err = strconv.ParseUint(text, 10, 64)
		parsed = protoreflect.ValueOfUint64(n)
	default:
		return parsed, wanted(field)
	}
	return parsed, unless(err == nil, wanted(field))
}

func float(text string, field protoreflect.FieldDescriptor) (protoreflect.Value, string) {
	f, err := strconv.ParseFloat(text, 64)
	if field.Kind() == protoreflect.FloatKind {
		return protoreflect.ValueOfFloat32(float32(f)), unless(err == nil, wanted(field))
	}
	return protoreflect.ValueOfFloat64(f), unless(err == nil, wanted(field))
}

// wanted says what a scalar of the field looks like.
func wanted(field protoreflect.FieldDescriptor) string {
	switch field.Kind() {
	case protoreflect.StringKind:
		return "a text"
	case protoreflect.EnumKind:
		return "one of " + strings.Join(words(field.Enum()), ", ")
	case protoreflect.BytesKind:
		return "base64"
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return "a number"
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return "a whole number from -2147483648 to 2147483647"
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return "a whole number from 0"
	default:
		return "a whole number from -9223372036854775808 to 9223372036854775807"
	}
}

func (d *decoder) mismatch(v value, path, want string) {
	d.refuse(v, path, fmt.Sprintf("must be %s, not %s", want, v.describe()))
}

func (d *decoder) refuse(v value, path, message string) {
	if len(d.violations) < maxViolations {
		d.violations = append(d.violations, fault.Violation{
			Field:   path,
			Message: fmt.Sprintf("%s (%s)", message, position(d.raw, v.offset)),
		})
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func names(m protoreflect.MessageDescriptor) string {
	var list []string
	for i := range m.Fields().Len() {
		list = append(list, string(m.Fields().Get(i).Name()))
	}
	return strings.Join(list, ", ")
}

// unquoted returns the text of a JSON string. A lone surrogate stands for no character, and is refused.
func (v value) unquoted() (string, bool) {
	if v.kind() != quoted {
		return "", false
	}
	decoded, err := canon.Decode(v.text)
	s, isString := decoded.(string)
	return s, err == nil && isString
}

// checkText refuses what is no JSON, with its position.
func checkText(raw []byte) error {
	var ignored json.RawMessage
	if err := json.Unmarshal(raw, &ignored); err != nil {
		return malformed(raw, syntaxOffset(raw, err), err.Error())
	}
	if at := invalidUTF8(raw); at >= 0 {
		return malformed(raw, at, "the text is not valid UTF-8")
	}
	if at := tooDeep(raw); at >= 0 {
		return malformed(raw, at, fmt.Sprintf("nested deeper than %d", canon.MaxDepth))
	}
	return nil
}
