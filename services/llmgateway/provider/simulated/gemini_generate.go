package simulated

import (
	"encoding/json"
	"net/http"
	"strings"
)

// registerGemini serves Gemini's methods of models. In a path the question mark of a model's faults is written %3F.
func (p *Provider) registerGemini() {
	g := gemini{p.clock.Now}
	methods := map[string]http.HandlerFunc{
		"generateContent": p.ask(g, parseGenerate), "streamGenerateContent": p.ask(g, parseGenerate),
		"embedContent": p.ask(g, parseEmbedContent), "batchEmbedContents": p.ask(g, parseEmbedContents),
	}
	p.mux.HandleFunc("POST /v1beta/models/{call}", func(w http.ResponseWriter, r *http.Request) {
		_, method := modelAndMethod(r)
		serve, known := methods[method]
		if !known {
			g.refuse(w, 0, missing("method", method))
			return
		}
		serve(w, r)
	})
	p.handle("GET /v1beta/models", "models", g, func(w http.ResponseWriter, _ *http.Request) *failure {
		list := []geminiModel{}
		for _, name := range p.cfg.Models {
			list = append(list, newGeminiModel(name))
		}
		writeJSON(w, http.StatusOK, map[string]any{"models": list})
		return nil
	})
	p.handle("GET /v1beta/models/{id}", "models", g, func(w http.ResponseWriter, r *http.Request) *failure {
		for _, name := range p.cfg.Models {
			if name == r.PathValue("id") {
				writeJSON(w, http.StatusOK, newGeminiModel(name))
				return nil
			}
		}
		return noModel(r.PathValue("id"), p.cfg.Models)
	})
}

// geminiModel is a model as Gemini shows it.
type geminiModel struct {
	Name        string   `json:"name"`
	DisplayName string   `json:"displayName"`
	Version     string   `json:"version"`
	Input       int      `json:"inputTokenLimit"`
	Output      int      `json:"outputTokenLimit"`
	Methods     []string `json:"supportedGenerationMethods"`
}

func newGeminiModel(name string) geminiModel {
	return geminiModel{
		Name: "models/" + name, DisplayName: name + " (simulated)", Version: "simulated", Input: 1 << 20, Output: 1 << 16,
		Methods: []string{"generateContent", "embedContent"},
	}
}

// modelAndMethod reads the end of a path such as models/sim-small:generateContent.
func modelAndMethod(r *http.Request) (model, method string) {
	call := r.PathValue("call")
	i := strings.LastIndexByte(call, ':')
	if i < 0 {
		return call, ""
	}
	return call[:i], call[i+1:]
}

// generateRequest is the part of a request that matters here.
type generateRequest struct {
	Contents    []geminiContent `json:"contents"`
	System      *geminiContent  `json:"systemInstruction"`
	SystemSnake *geminiContent  `json:"system_instruction"` // as examples write it
	Tools       []geminiTool    `json:"tools"`
	ToolConfig  struct {
		Calling struct {
			Mode    string   `json:"mode"`
			Allowed []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
	Config generationConfig `json:"generationConfig"`
}

type generationConfig struct {
	MaxOutputTokens int             `json:"maxOutputTokens"`
	CandidateCount  int             `json:"candidateCount"`
	MimeType        string          `json:"responseMimeType"`
	Schema          json.RawMessage `json:"responseSchema"`
	JSONSchema      json.RawMessage `json:"responseJsonSchema"`
	Thinking        struct {
		Include bool `json:"includeThoughts"`
		Budget  int  `json:"thinkingBudget"`
	} `json:"thinkingConfig"`
}

type geminiTool struct {
	Functions []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		JSONSchema  json.RawMessage `json:"parametersJsonSchema"`
	} `json:"functionDeclarations"`
}

// parseGenerate reads what generateContent and streamGenerateContent take.
func parseGenerate(r *http.Request, body []byte) (*question, *failure) {
	var asked generateRequest
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, invalid("", "Invalid JSON payload received: "+err.Error())
	}
	model, method := modelAndMethod(r)
	config := asked.Config
	q := &question{model: model, limit: config.MaxOutputTokens, stream: method == "streamGenerateContent"}
	q.listed = r.URL.Query().Get("alt") != "sse"
	q.writer = generateWriter{thoughts: config.Thinking.Include}
	switch {
	case len(asked.Contents) == 0:
		return nil, invalid("contents", "contents is not specified")
	case config.CandidateCount > 1:
		return nil, invalid("candidateCount", "the simulated provider gives one candidate")
	case config.Thinking.Budget > 0:
		q.thinking = config.Thinking.Budget
	}
	for _, system := range []*geminiContent{asked.System, asked.SystemSnake} {
		if system != nil {
			q.turns = append(q.turns, system.turn(roleSystem))
		}
	}
	for _, c := range asked.Contents {
		q.turns = append(q.turns, c.turn(""))
	}
	asked.offer(q)
	return q, config.answerForm(q)
}

// answerForm reads in which form the answer is to be.
func (c generationConfig) answerForm(q *question) *failure {
	q.object = c.MimeType == "application/json"
	q.schema = c.JSONSchema
	if c.Schema == nil {
		return nil
	}
	var bad error
	if q.schema, bad = jsonSchemaOf(c.Schema); bad != nil {
		return invalid("generationConfig.responseSchema", bad.Error())
	}
	return nil
}

// offer reads tools and toolConfig.
func (asked *generateRequest) offer(q *question) {
	for _, t := range asked.Tools {
		for _, f := range t.Functions {
			schema := f.JSONSchema
			if schema == nil && f.Parameters != nil {
				schema, _ = jsonSchemaOf(f.Parameters) // what is no schema has no members to fill
			}
			q.tools = append(q.tools, tool{f.Name, f.Description, schema})
		}
	}
	calling := asked.ToolConfig.Calling
	switch calling.Mode {
	case "NONE":
		q.choice = choiceNone
	case "ANY":
		q.choice = choiceAny
		if len(calling.Allowed) > 0 {
			q.choice = calling.Allowed[0]
		}
	}
}
