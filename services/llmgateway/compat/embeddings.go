package compat

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"

	systemv1 "pawl.internal/gen/pawl/system/v1"
)

const (
	// mostTexts is how many texts may be embedded at once.
	mostTexts = 2048
	// mostDimensions bounds the length of a vector.
	mostDimensions = 1 << 16
)

// embeddingsRequest is a request for the vectors of texts.
type embeddingsRequest struct {
	question *systemv1.GenerateRequest
	base64   bool
}

func readEmbeddings(f *fields) (*embeddingsRequest, error) {
	c := &embeddingsRequest{question: &systemv1.GenerateRequest{}}
	c.question.Route = f.needText("model")
	c.question.Embed = readInput(f)
	if n, ok := f.whole("dimensions", 1, mostDimensions); ok {
		dimensions := int32(n)
		c.question.Dimensions = &dimensions
	}
	switch format, _ := f.text("encoding_format"); format {
	case "", "float":
	case "base64":
		c.base64 = true
	default:
		f.fail("encoding_format", "must be float or base64")
	}
	f.ignore("user")
	return c, f.end()
}

// readInput reads a text or a list of texts. Tokens are not taken: which texts they stand for only the model's maker knows.
func readInput(f *fields) []string {
	const member = "input"
	raw, ok := f.take(member)
	if !ok {
		f.fail(member, "is missing")
		return nil
	}
	var texts []string
	var one string
	if json.Unmarshal(raw, &one) == nil {
		texts = []string{one}
	} else if json.Unmarshal(raw, &texts) != nil {
		f.fail(member, "must be a text or a list of texts; lists of tokens are not supported here")
		return nil
	}
	if len(texts) == 0 || len(texts) > mostTexts {
		f.fail(member, "must have 1 to %d texts", mostTexts)
	}
	for _, text := range texts {
		if text == "" {
			f.fail(member, "must not have empty texts")
		}
	}
	return texts
}

// embeddingList is the answer.
type embeddingList struct {
	Object string         `json:"object"`
	Data   []embedding    `json:"data"`
	Model  string         `json:"model"`
	Usage  embeddingUsage `json:"usage"`
}

type embedding struct {
	Object string `json:"object"`
	Index  int    `json:"index"`
	// Embedding is a list of numbers, or their bytes in base64.
	Embedding any `json:"embedding"`
}

type embeddingUsage struct {
	Prompt int64 `json:"prompt_tokens"`
	Total  int64 `json:"total_tokens"`
}

// embeddings answers a request for vectors.
func (e *endpoint) embeddings(w http.ResponseWriter, r *http.Request) error {
	h, err := e.authenticate(r, mayAsk)
	if err != nil {
		return err
	}
	body, err := e.readBody(w, r)
	if err != nil {
		return err
	}
	c, err := readEmbeddings(body)
	if err != nil {
		return err
	}
	a, end, err := e.ask(r, h, "embeddings", c.question, false)
	if err != nil {
		return err
	}
	defer end()
	result, err := a.await()
	if err != nil {
		return err
	}
	e.describe(w, r, a, result)
	if result.Answer == nil || result.Failure != nil {
		return failed(result.Failure)
	}
	writeJSON(w, embeddingsOf(result.Answer, c.base64))
	return nil
}

func embeddingsOf(a *systemv1.Answer, inBase64 bool) embeddingList {
	list := embeddingList{
		Object: "list", Data: []embedding{}, Model: a.GetModel(),
		Usage: embeddingUsage{Prompt: a.GetInputTokens(), Total: a.GetInputTokens()},
	}
	for i, v := range a.GetEmbeddings() {
		each := embedding{Object: "embedding", Index: i, Embedding: v.GetValues()}
		if inBase64 {
			each.Embedding = encodeVector(v.GetValues())
		}
		list.Data = append(list.Data, each)
	}
	return list
}

// encodeVector is the vector's numbers as four bytes each, the lowest first, in base64.
func encodeVector(values []float32) string {
	var raw []byte
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return base64.StdEncoding.EncodeToString(raw)
}
