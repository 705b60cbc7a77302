package simulated

import (
	"encoding/json"
	"net/http"
)

// embedContentRequest is one text to embed.
type embedContentRequest struct {
	Content    geminiContent `json:"content"`
	Dimensions int           `json:"outputDimensionality"`
}

// parseEmbedContent reads what embedContent takes.
func parseEmbedContent(r *http.Request, body []byte) (*question, *failure) {
	var one embedContentRequest
	if err := json.Unmarshal(body, &one); err != nil {
		return nil, invalid("", "Invalid JSON payload received: "+err.Error())
	}
	return embedContents(r, []embedContentRequest{one}, false)
}

// parseEmbedContents reads what batchEmbedContents takes.
func parseEmbedContents(r *http.Request, body []byte) (*question, *failure) {
	var many struct {
		Requests []embedContentRequest `json:"requests"`
	}
	if err := json.Unmarshal(body, &many); err != nil {
		return nil, invalid("", "Invalid JSON payload received: "+err.Error())
	}
	return embedContents(r, many.Requests, true)
}

func embedContents(r *http.Request, requests []embedContentRequest, many bool) (*question, *failure) {
	model, _ := modelAndMethod(r)
	q := &question{model: model, writer: contentEmbedding{many}, dimensions: defaultDimensions, inputs: []string{}}
	for _, one := range requests {
		q.inputs = append(q.inputs, one.Content.turn("").text)
		if one.Dimensions != 0 {
			q.dimensions = one.Dimensions
		}
	}
	return q, q.checkInputs()
}

// contentEmbedding writes vectors as Gemini does, several or one.
type contentEmbedding struct{ many bool }

func (w contentEmbedding) whole(_ *question, a *answer) []byte {
	type embedding struct {
		Values []float32 `json:"values"`
	}
	all := []embedding{}
	for _, v := range a.vectors {
		if !a.empty {
			all = append(all, embedding{v})
		}
	}
	whole := map[string]any{"embeddings": all}
	if !w.many {
		whole = map[string]any{}
		if len(all) > 0 {
			whole["embedding"] = all[0]
		}
	}
	if !a.usage.unsaid {
		whole["usageMetadata"] = map[string]int{"promptTokenCount": a.usage.prompt}
	}
	return marshal(whole)
}

// pieces is never asked for: embeddings are not streamed.
func (w contentEmbedding) pieces(q *question, a *answer) []piece {
	return []piece{{data: w.whole(q, a)}}
}
