package apijson

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	"pawl.internal/services/internal/fault"
)

// SetParameter sets the field that a query parameter names from the parameter's values. Only scalars and lists of scalars
// can be given so. Errors are of type *fault.Error and name the parameter.
func SetParameter(m proto.Message, name string, values []string) error {
	message := m.ProtoReflect()
	field := message.Descriptor().Fields().ByName(protoreflect.Name(name))
	if field == nil || field.Kind() == protoreflect.MessageKind {
		return refuseParameter(name, "is not a parameter here; the parameters are "+names(message.Descriptor()))
	}
	if len(values) > 1 && !field.IsList() {
		return refuseParameter(name, "is given more than once")
	}
	for _, text := range values {
		parsed, want := fromText(text, field)
		if want != "" {
			return refuseParameter(name, fmt.Sprintf("must be %s, not %q", want, shorten(text)))
		}
		if field.IsList() {
			message.Mutable(field).List().Append(parsed)
			continue
		}
		message.Set(field, parsed)
	}
	return nil
}

func refuseParameter(name, message string) error {
	return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, fault.Violation{Field: name, Message: message})
}

func shorten(text string) string {
	if runes := []rune(text); len(runes) > longest {
		return string(slices.Concat(runes[:longest], []rune("…")))
	}
	return text
}
