package rest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/apijson"
	"pawl.internal/services/internal/fault"
)

const contentJSON = "application/json"

// textTypes are the types of documents that may be a body themselves.
func textTypes() []string { return []string{"text/plain", "text/markdown"} }

// yamlTypes are the types of pipelines that may be a body themselves.
func yamlTypes() []string { return []string{"application/yaml", "application/x-yaml", "text/yaml"} }

// jsonBody reads and writes messages in the API's JSON form.
type jsonBody struct{}

var _ runtime.Marshaler = jsonBody{}

// ContentType is that of every answer.
func (jsonBody) ContentType(any) string { return contentJSON }

// Marshal writes a message.
func (jsonBody) Marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("a %T is not a message of the API", v)
	}
	text, err := apijson.Marshal(m)
	if err != nil {
		return nil, fault.Internal(err)
	}
	return append(text, '\n'), nil
}

// Unmarshal reads a message.
func (jsonBody) Unmarshal(raw []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("a %T is not a message of the API", v)
	}
	return carry(apijson.Unmarshal(raw, m))
}

// NewDecoder reads one message; a body of white space only is no message (io.EOF).
func (j jsonBody) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		raw, err := readBody(r)
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(raw)) == 0 {
			return io.EOF
		}
		return j.Unmarshal(raw, v)
	})
}

// NewEncoder writes messages.
func (j jsonBody) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		text, err := j.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	})
}

// textBody takes the body itself as a document. Answers are JSON.
type textBody struct {
	jsonBody
	mediaType string
}

// NewDecoder reads a document.
func (t textBody) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		document, ok := v.(*pawlv1.CreateDocumentRequest)
		if !ok {
			return carry(errMediaType("this call takes JSON, not %s", t.mediaType))
		}
		text, err := readText(r)
		document.Text, document.MediaType = text, t.mediaType
		return err
	})
}

// yamlBody takes the body itself as a pipeline's source. Answers are JSON.
type yamlBody struct{ jsonBody }

// NewDecoder reads a pipeline's source.
func (yamlBody) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		text, err := readText(r)
		if err != nil {
			return err
		}
		switch request := v.(type) {
		case *pawlv1.CreatePipelineRequest:
			request.Pipeline = &pawlv1.CreatePipelineRequest_Source{Source: text}
		case *pawlv1.ValidatePipelineRequest:
			request.Pipeline = &pawlv1.ValidatePipelineRequest_Source{Source: text}
		default:
			return carry(errMediaType("this call takes JSON, not YAML"))
		}
		return nil
	})
}

func readText(r io.Reader) (string, error) {
	raw, err := readBody(r)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(raw) {
		return "", carry(errMediaType("the text is not valid UTF-8"))
	}
	return string(raw), nil
}

// readBody reads to the end, or to the limit that prepare has set.
func readBody(r io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(r)
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, carry(errBodyTooLarge(tooLarge.Limit))
	}
	if err != nil {
		return nil, carry(fault.New(faultv1.ErrorReason_ERROR_REASON_MALFORMED_BODY, "the body could not be read to its end").
			WithCause(err))
	}
	return raw, nil
}
