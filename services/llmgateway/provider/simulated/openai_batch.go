package simulated

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
)

// registerBatches serves OpenAI's batches.
func (p *Provider) registerBatches() {
	o := openAI{p.clock.Now}
	p.handle("POST /v1/batches", "batches.create", o, p.createBatch)
	p.handle("GET /v1/batches", "batches.list", o, func(w http.ResponseWriter, r *http.Request) *failure {
		var all []openAIBatch
		p.batches.newest(formOpenAI, func(b *batch) { all = append(all, newOpenAIBatch(b)) })
		id := func(b openAIBatch) string { return b.ID }
		part, bad := cutPage(r, all, "after", id)
		if bad == nil {
			writeJSON(w, http.StatusOK, openAIList(part, id))
		}
		return bad
	})
	p.handle("GET /v1/batches/{id}", "batches.get", o, func(w http.ResponseWriter, r *http.Request) *failure {
		return p.withOpenAIBatch(w, r, func(*batch) *failure { return nil })
	})
	p.handle("POST /v1/batches/{id}/cancel", "batches.cancel", o, func(w http.ResponseWriter, r *http.Request) *failure {
		return p.withOpenAIBatch(w, r, func(b *batch) *failure {
			if b.ended() {
				return &failure{kind: failStatus, status: http.StatusConflict, message: fmt.Sprintf("Cannot cancel a batch with status '%s'.", b.stage)}
			}
			p.batches.cancel(b)
			return nil
		})
	})
}

// withOpenAIBatch answers with the batch that the path names, after use.
func (p *Provider) withOpenAIBatch(w http.ResponseWriter, r *http.Request, use func(*batch) *failure) (bad *failure) {
	var now openAIBatch
	known := p.batches.with(formOpenAI, r.PathValue("id"), func(b *batch) {
		bad = use(b)
		now = newOpenAIBatch(b)
	})
	if !known {
		return missing("batch", r.PathValue("id"))
	}
	if bad == nil {
		writeJSON(w, http.StatusOK, now)
	}
	return bad
}

// batchRequest is what POST /v1/batches takes.
type batchRequest struct {
	InputFile string            `json:"input_file_id"`
	Endpoint  string            `json:"endpoint"`
	Window    string            `json:"completion_window"`
	Metadata  map[string]string `json:"metadata"`
}

func (p *Provider) createBatch(w http.ResponseWriter, r *http.Request) *failure {
	var asked batchRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&asked); err != nil {
		return invalid("", "the request is not what POST /v1/batches takes: "+err.Error())
	}
	input := p.files.get(asked.InputFile)
	switch {
	case input == nil:
		return invalid("input_file_id", fmt.Sprintf("there is no file %q at the simulated provider", asked.InputFile))
	case input.Purpose != "batch":
		return invalid("input_file_id", fmt.Sprintf("the purpose of the file must be batch, and is %q", input.Purpose))
	case asked.Window != "24h":
		return invalid("completion_window", "completion_window must be 24h")
	case !slices.Contains(sortedEndpoints(), asked.Endpoint):
		return invalid("endpoint", "endpoint must be /v1/chat/completions or /v1/embeddings")
	}
	b := &batch{id: "batch_", form: formOpenAI, asked: batchOrder{
		endpoint: asked.Endpoint, inputFile: input.ID, window: asked.Window, metadata: asked.Metadata,
	}}
	b.items, b.faults = readLines(input.content, asked.Endpoint)
	p.batches.add(b, func(b *batch) { writeJSON(w, http.StatusOK, newOpenAIBatch(b)) })
	return nil
}

// openAIBatch is a batch as OpenAI shows it. Times are seconds since 1970, or null.
type openAIBatch struct {
	ID           string            `json:"id"`
	Object       string            `json:"object"`
	Endpoint     string            `json:"endpoint"`
	Errors       any               `json:"errors"`
	InputFile    string            `json:"input_file_id"`
	Window       string            `json:"completion_window"`
	Status       stage             `json:"status"`
	OutputFile   any               `json:"output_file_id"`
	ErrorFile    any               `json:"error_file_id"`
	CreatedAt    int64             `json:"created_at"`
	InProgressAt any               `json:"in_progress_at"`
	ExpiresAt    int64             `json:"expires_at"`
	FinalizingAt any               `json:"finalizing_at"`
	CompletedAt  any               `json:"completed_at"`
	FailedAt     any               `json:"failed_at"`
	ExpiredAt    any               `json:"expired_at"`
	CancelingAt  any               `json:"cancelling_at"`
	CanceledAt   any               `json:"cancelled_at"`
	Counts       map[string]int    `json:"request_counts"`
	Metadata     map[string]string `json:"metadata"`
}

func newOpenAIBatch(b *batch) openAIBatch {
	o := openAIBatch{
		ID: b.id, Object: "batch", Endpoint: b.asked.endpoint, InputFile: b.asked.inputFile, Window: b.asked.window, Status: b.stage,
		CreatedAt: b.created.Unix(), ExpiresAt: b.expires.Unix(), InProgressAt: b.unix(stageInProgress),
		FinalizingAt: b.unix(stageFinalizing), CompletedAt: b.unix(stageCompleted), FailedAt: b.unix(stageFailed),
		ExpiredAt: b.unix(stageExpired), CancelingAt: b.unix(stageCanceling), CanceledAt: b.unix(stageCanceled),
		Counts: map[string]int{
			"total": len(b.items), "completed": b.count(itemSucceeded), "failed": b.count(itemErrored),
		},
		Metadata: b.asked.metadata,
	}
	if b.stage == stageFailed {
		o.Errors = map[string]any{"object": "list", "data": b.faults}
	}
	if b.asked.outputFile != "" {
		o.OutputFile = b.asked.outputFile
	}
	if b.asked.errorFile != "" {
		o.ErrorFile = b.asked.errorFile
	}
	return o
}
