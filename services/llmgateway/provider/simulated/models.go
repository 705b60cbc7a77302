package simulated

import (
	"net/http"
	"slices"
)

// registerModels serves the list of models, in the form that the caller's headers tell.
func (p *Provider) registerModels() {
	for pattern, serve := range map[string]func(form) func(http.ResponseWriter, *http.Request) *failure{
		"GET /v1/models": p.listModels, "GET /v1/models/{id}": p.getModel,
	} {
		p.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			var f form = openAI{p.clock.Now}
			if r.Header.Get(headerVersion) != "" {
				f = anthropic{p.clock.Now}
			}
			p.other(w, r, "models", f, serve(f))
		})
	}
}

func (p *Provider) listModels(f form) func(http.ResponseWriter, *http.Request) *failure {
	return func(w http.ResponseWriter, r *http.Request) *failure {
		if f.name() == formOpenAI {
			data := []any{}
			for _, name := range p.cfg.Models {
				data = append(data, p.model(f, name))
			}
			writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": data})
			return nil
		}
		same := func(id string) string { return id }
		part, bad := cutPage(r, p.cfg.Models, "after_id", same)
		if bad != nil {
			return bad
		}
		list := anthropicList(part, same)
		data := []any{}
		for _, name := range part.entries {
			data = append(data, p.model(f, name))
		}
		list["data"] = data
		writeJSON(w, http.StatusOK, list)
		return nil
	}
}

func (p *Provider) getModel(f form) func(http.ResponseWriter, *http.Request) *failure {
	return func(w http.ResponseWriter, r *http.Request) *failure {
		name := r.PathValue("id")
		if !slices.Contains(p.cfg.Models, name) {
			return noModel(name, p.cfg.Models)
		}
		writeJSON(w, http.StatusOK, p.model(f, name))
		return nil
	}
}

// openAIModel is a model as OpenAI shows it.
type openAIModel struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// anthropicModel is a model as Anthropic shows it.
type anthropicModel struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at"`
}

func (p *Provider) model(f form, name string) any {
	if f.name() == formOpenAI {
		return openAIModel{ID: name, Object: "model", Created: p.started.Unix(), OwnedBy: "simulated"}
	}
	return anthropicModel{Type: "model", ID: name, DisplayName: name + " (simulated)", CreatedAt: rfc3339(p.started)}
}
