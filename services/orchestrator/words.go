package orchestrator

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/orchestrator/machine"
)

// word is an enum's value as a lower-case word without the enum's name: CLAIM_STATUS_GRANTED is granted.
func word(value interface {
	protoreflect.Enum
	String() string
},
) string {
	name := string(value.Descriptor().Name())
	return strings.ToLower(strings.TrimPrefix(value.String(), upperSnake(name)+"_"))
}

// upperSnake is the prefix of an enum's values: ClaimStatus becomes CLAIM_STATUS.
func upperSnake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToUpper(b.String())
}

func classOf(c pawlv1.RunClass) machine.Class {
	if c == pawlv1.RunClass_RUN_CLASS_BATCH {
		return machine.Batch
	}
	return machine.Interactive
}

func classProto(c machine.Class) pawlv1.RunClass {
	if c == machine.Batch {
		return pawlv1.RunClass_RUN_CLASS_BATCH
	}
	return pawlv1.RunClass_RUN_CLASS_INTERACTIVE
}

func runStatusProto(s machine.RunStatus) pawlv1.RunStatus {
	return pawlv1.RunStatus(pawlv1.RunStatus_value["RUN_STATUS_"+strings.ToUpper(string(s))])
}

// outcomeKind is the kind of an outcome as a word.
func outcomeKind(o *systemv1.Outcome) string {
	switch o.GetResult().(type) {
	case *systemv1.Outcome_Succeeded_:
		return "succeeded"
	case *systemv1.Outcome_Skipped_:
		return "skipped"
	case *systemv1.Outcome_Expanded_:
		return "expanded"
	case *systemv1.Outcome_Failed_:
		return "failed"
	case *systemv1.Outcome_ReviewRequested_:
		return "review_requested"
	case *systemv1.Outcome_Parked_:
		return "parked"
	default:
		return "none"
	}
}

// plain makes of a text one that PostgreSQL stores: without the NUL character.
func plain(text string) string { return strings.ReplaceAll(text, "\x00", "") }
