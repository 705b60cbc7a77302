package intake

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/canon"
	"pawl.internal/services/internal/fault"
)

const (
	// keyHeader is the metadata key under which Idempotency-Key arrives.
	keyHeader = "idempotency-key"
	keyField  = "idempotency_key"
	// maxKeyLength is the longest idempotency key, in characters.
	maxKeyLength = 255
)

// creating is a request that makes something, and so takes an idempotency key.
type creating interface {
	proto.Message
	GetIdempotencyKey() string
}

// idempotency returns the request's key and fingerprint. The key may come in the request or in the header; the
// fingerprint is that of the method and of everything in the request but the key.
func idempotency(ctx context.Context, method string, req creating) (*systemv1.Idempotency, error) {
	key, err := idempotencyKey(ctx, req.GetIdempotencyKey())
	if err != nil {
		return nil, err
	}
	digest, err := fingerprint(method, req)
	if err != nil {
		return nil, err
	}
	return &systemv1.Idempotency{Key: key, RequestDigest: digest}, nil
}

func idempotencyKey(ctx context.Context, field string) (string, error) {
	headers := metadata.ValueFromIncomingContext(ctx, keyHeader)
	if len(headers) > 1 {
		return "", badKey("the header Idempotency-Key is given more than once")
	}
	key := field
	if len(headers) == 1 {
		header, ok := unquoteKey(strings.TrimSpace(headers[0]))
		switch {
		case !ok:
			return "", badKey(`the header Idempotency-Key must be a text in quotes such as "7f0c…", or the bare text`)
		case field != "" && field != header:
			return "", badKey("the field and the header Idempotency-Key differ: give one of them")
		}
		key = header
	}
	if key == "" {
		return "", fault.New(faultv1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_MISSING,
			"this call needs an Idempotency-Key: a text that is new for every new request, such as a UUID, "+
				"and the same when the request is repeated").
			WithViolations(fault.Violation{Field: keyField, Message: "is missing"})
	}
	if !isKey(key) {
		return "", badKey("must be 1 to 255 printable ASCII characters")
	}
	return key, nil
}

// isKey reports whether a text that is not empty can be a key.
func isKey(text string) bool {
	return len(text) <= maxKeyLength && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// unquoteKey reads a header's value: a structured-field string (RFC 9651) in quotes, or the bare key.
func unquoteKey(value string) (string, bool) {
	inner, quoted := strings.CutPrefix(value, `"`)
	if !quoted {
		return value, !strings.Contains(value, `"`)
	}
	var key strings.Builder
	for i := 0; i < len(inner); i++ {
		switch c := inner[i]; c {
		case '"':
			return key.String(), i == len(inner)-1
		case '\\':
			i++
			if i == len(inner) || inner[i] != '"' && inner[i] != '\\' {
				return "", false
			}
			key.WriteByte(inner[i])
		default:
			key.WriteByte(c)
		}
	}
	return "", false
}

func badKey(message string) error {
	return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, fault.Violation{Field: keyField, Message: message})
}

// fingerprint is the SHA-256 of the method and the request in canonical form. Fields that a later version adds do not
// change it as long as they are not used, so that it is the same during an upgrade.
func fingerprint(method string, req creating) ([]byte, error) {
	plain := proto.Clone(req)
	fields := plain.ProtoReflect().Descriptor().Fields()
	plain.ProtoReflect().Clear(fields.ByName(keyField))
	if run, ok := plain.(*pawlv1.CreateRunRequest); ok && run.GetInput() != nil {
		run.Input.Json = canonical(run.GetInput().GetJson())
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(plain)
	if err != nil {
		return nil, fault.Internal(err)
	}
	sum := sha256.Sum256(append([]byte(method+"\n"), text...))
	return sum[:], nil
}

// canonical brings documents that say the same to the same text. One that has no canonical form (a name given twice, half
// a surrogate pair) only loses its white space.
func canonical(document string) string {
	if text, err := canon.JSON([]byte(document)); err == nil {
		return string(text)
	}
	var compact bytes.Buffer
	if json.Compact(&compact, []byte(document)) != nil {
		return document
	}
	return compact.String()
}
