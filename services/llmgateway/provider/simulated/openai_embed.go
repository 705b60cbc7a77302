package simulated

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
)

// maxInputs is how many texts one request may embed.
const maxInputs = 2048

// embeddingRequest is what POST /v1/embeddings takes.
type embeddingRequest struct {
	Model          string          `json:"model"`
	Input          json.RawMessage `json:"input"`
	Dimensions     int             `json:"dimensions"`
	EncodingFormat string          `json:"encoding_format"`
}

// parseEmbedding reads what POST /v1/embeddings takes.
func parseEmbedding(_ *http.Request, body []byte) (*question, *failure) {
	var r embeddingRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, invalid("", "the request is not what POST /v1/embeddings takes: "+err.Error())
	}
	q := &question{model: r.Model, inputs: textsOf(r.Input), dimensions: r.Dimensions}
	if q.dimensions == 0 {
		q.dimensions = defaultDimensions
	}
	switch r.EncodingFormat {
	case "", "float":
		q.writer = embeddingWriter{}
	case "base64":
		q.writer = embeddingWriter{inBase64: true}
	default:
		return nil, invalid("encoding_format", "encoding_format must be float or base64")
	}
	return q, q.checkInputs()
}

// checkInputs refuses what cannot be embedded.
func (q *question) checkInputs() *failure {
	if len(q.inputs) == 0 || len(q.inputs) > maxInputs {
		return invalid("input", fmt.Sprintf("input must be a text or a list of tokens, or up to %d of them", maxInputs))
	}
	if q.dimensions < 1 || q.dimensions > maxDimensions {
		return invalid("dimensions", fmt.Sprintf("dimensions must be from 1 to %d", maxDimensions))
	}
	for i, text := range q.inputs {
		if text == "" {
			return invalid("input", fmt.Sprintf("input %d is empty", i))
		}
	}
	return nil
}

// textsOf reads a text, a list of texts, a list of tokens, or a list of lists of tokens; nil if it is none of them.
func textsOf(input json.RawMessage) []string {
	var text string
	if json.Unmarshal(input, &text) == nil {
		return []string{text}
	}
	var texts []string
	if json.Unmarshal(input, &texts) == nil {
		return texts
	}
	var numbers []int
	if json.Unmarshal(input, &numbers) == nil {
		return []string{textOf(numbers)}
	}
	var lists [][]int
	if json.Unmarshal(input, &lists) != nil {
		return nil
	}
	ofTokens := make([]string, len(lists))
	for i, list := range lists {
		ofTokens[i] = textOf(list)
	}
	return ofTokens
}

// textOf stands for a list of tokens, which mean nothing here: four bytes for each.
func textOf(numbers []int) string {
	var text strings.Builder
	for _, n := range numbers {
		fmt.Fprintf(&text, "%03x ", n&0xfff)
	}
	return text.String()
}

// embeddingWriter writes vectors as embeddings.
type embeddingWriter struct{ inBase64 bool }

func (w embeddingWriter) whole(_ *question, a *answer) []byte {
	type embedding struct {
		Object    string `json:"object"`
		Index     int    `json:"index"`
		Embedding any    `json:"embedding"`
	}
	data := []embedding{}
	for i, v := range a.vectors {
		if a.empty {
			break
		}
		e := embedding{"embedding", i, v}
		if w.inBase64 {
			e.Embedding = inBase64(v)
		}
		data = append(data, e)
	}
	whole := map[string]any{"object": "list", "data": data, "model": a.model}
	if !a.usage.unsaid {
		whole["usage"] = map[string]int{"prompt_tokens": a.usage.prompt, "total_tokens": a.usage.total()}
	}
	return marshal(whole)
}

// pieces is never asked for: embeddings are not streamed.
func (w embeddingWriter) pieces(q *question, a *answer) []piece {
	return []piece{{data: w.whole(q, a)}}
}

// inBase64 is a vector as little-endian floats of four bytes.
func inBase64(v []float32) string {
	raw := make([]byte, 0, 4*len(v))
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(raw)
}
