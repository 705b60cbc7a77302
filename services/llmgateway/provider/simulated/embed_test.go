package simulated_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// embedded is the answer of POST /v1/embeddings.
type embedded struct {
	Data []struct {
		Index     int       `json:"index"`
		Embedding []float32 `json:"embedding"`
	} `json:"data"`
	Model string         `json:"model"`
	Usage map[string]int `json:"usage"`
}

func embed(t *testing.T, s *server, body string) embedded {
	t.Helper()
	r := s.send(t, "POST", "/v1/embeddings", body)
	require.Equal(t, 200, r.status, r.body)
	var e embedded
	require.NoError(t, json.Unmarshal([]byte(r.body), &e))
	return e
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestEmbeddings(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	e := embed(t, s, `{"model":"sim-small","input":["the cat sat on the mat","a cat sat on a mat","invoices are paid in euros"]}`)
	require.Equal(t, "sim-small", e.Model)
	require.Equal(t, map[string]int{"prompt_tokens": 18, "total_tokens": 18}, e.Usage)
	require.Len(t, e.Data, 3)
	for i, d := range e.Data {
		require.Equal(t, i, d.Index)
		require.Len(t, d.Embedding, 1536)
		require.InDelta(t, 1, dot(d.Embedding, d.Embedding), 1e-5)
	}
	near, far := dot(e.Data[0].Embedding, e.Data[1].Embedding), dot(e.Data[0].Embedding, e.Data[2].Embedding)
	require.Greater(t, near, far+0.3, "texts with words in common are near")
	again := embed(t, s, `{"model":"sim-small","input":"a cat sat on a mat"}`)
	require.Equal(t, e.Data[1].Embedding, again.Data[0].Embedding)
	require.Equal(t, 18+5, sumOfPrompts(s.Report(10)))
}

func sumOfPrompts(r simulated.Report) int {
	sum := 0
	for _, record := range r.Requests {
		sum += record.PromptTokens
	}
	return sum
}

func TestEmbeddingsInOtherForms(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	plain := embed(t, s, `{"model":"sim-small","input":"word","dimensions":8}`).Data[0].Embedding
	require.Len(t, plain, 8)
	r := s.send(t, "POST", "/v1/embeddings", `{"model":"sim-small","input":"word","dimensions":8,"encoding_format":"base64"}`)
	var packed struct{ Data []struct{ Embedding string } }
	require.NoError(t, json.Unmarshal([]byte(r.body), &packed))
	raw, err := base64.StdEncoding.DecodeString(packed.Data[0].Embedding)
	require.NoError(t, err)
	require.Len(t, raw, 32)
	for i, x := range plain {
		require.InDelta(t, x, math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])), 0)
	}
	require.Equal(t, 2, embed(t, s, `{"model":"sim-small","input":[17,4]}`).Usage["prompt_tokens"])
	require.Len(t, embed(t, s, `{"model":"sim-small","input":[[17,4],[1]]}`).Data, 2)
	r = s.send(t, "POST", "/v1/embeddings", `{"model":"sim-small?429=2s","input":"word"}`)
	require.Equal(t, 429, r.status)
	require.Empty(t, embed(t, s, `{"model":"sim-small?empty","input":"word"}`).Data)
}

func TestGeminiEmbeddings(t *testing.T) {
	s := serve(t, simulated.Config{}, clocktest.New())
	want := embed(t, s, `{"model":"sim-small","input":"word","dimensions":8}`).Data[0].Embedding
	one := s.send(t, "POST", "/v1beta/models/sim-small:embedContent", `{"content":{"parts":[{"text":"word"}]},"outputDimensionality":8}`)
	var single struct{ Embedding struct{ Values []float32 } }
	require.NoError(t, json.Unmarshal([]byte(one.body), &single))
	require.Equal(t, want, single.Embedding.Values)
	two := s.send(t, "POST", "/v1beta/models/sim-small:batchEmbedContents",
		`{"requests":[{"content":{"parts":[{"text":"other"}]},"outputDimensionality":8},{"content":{"parts":[{"text":"word"}]},"outputDimensionality":8}]}`)
	var several struct {
		Embeddings []struct{ Values []float32 }
	}
	require.NoError(t, json.Unmarshal([]byte(two.body), &several))
	require.Len(t, several.Embeddings, 2)
	require.Equal(t, want, several.Embeddings[1].Values)
}
