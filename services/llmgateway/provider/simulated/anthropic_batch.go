package simulated

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// registerMessageBatches serves Anthropic's batches.
func (p *Provider) registerMessageBatches() {
	a := anthropic{p.clock.Now}
	const one = "/v1/messages/batches/{id}"
	p.handle("POST /v1/messages/batches", "batches.create", a, p.createMessageBatch)
	p.handle("GET /v1/messages/batches", "batches.list", a, p.listMessageBatches)
	p.handle("GET "+one, "batches.get", a, func(w http.ResponseWriter, r *http.Request) *failure {
		return p.withMessageBatch(r, func(b *batch) *failure { return showMessageBatch(w, r, b) })
	})
	p.handle("POST "+one+"/cancel", "batches.cancel", a, func(w http.ResponseWriter, r *http.Request) *failure {
		return p.withMessageBatch(r, func(b *batch) *failure {
			p.batches.cancel(b)
			return showMessageBatch(w, r, b)
		})
	})
	p.handle("GET "+one+"/results", "batches.results", a, func(w http.ResponseWriter, r *http.Request) *failure {
		return p.withMessageBatch(r, func(b *batch) *failure { return writeResults(w, b) })
	})
	p.handle("DELETE "+one, "batches.delete", a, func(w http.ResponseWriter, r *http.Request) *failure {
		return p.withMessageBatch(r, func(b *batch) *failure {
			if !b.ended() {
				return invalid("", "a batch that has not ended cannot be deleted: cancel it first")
			}
			p.batches.remove(b)
			writeJSON(w, http.StatusOK, map[string]string{"id": b.id, "type": "message_batch_deleted"})
			return nil
		})
	})
}

func (p *Provider) withMessageBatch(r *http.Request, use func(*batch) *failure) (bad *failure) {
	if !p.batches.with(formAnthropic, r.PathValue("id"), func(b *batch) { bad = use(b) }) {
		return missing("message batch", r.PathValue("id"))
	}
	return bad
}

func showMessageBatch(w http.ResponseWriter, r *http.Request, b *batch) *failure {
	writeJSON(w, http.StatusOK, newMessageBatch(b, r.Host))
	return nil
}

func (p *Provider) listMessageBatches(w http.ResponseWriter, r *http.Request) *failure {
	var all []messageBatch
	p.batches.newest(formAnthropic, func(b *batch) { all = append(all, newMessageBatch(b, r.Host)) })
	id := func(b messageBatch) string { return b.ID }
	part, bad := cutPage(r, all, "after_id", id)
	if bad == nil {
		writeJSON(w, http.StatusOK, anthropicList(part, id))
	}
	return bad
}

// anthropicList is a page as Anthropic writes it.
func anthropicList[T any](p page[T], id func(T) string) map[string]any {
	first, last := p.ends(id)
	return map[string]any{"data": p.entries, "has_more": p.more, "first_id": first, "last_id": last}
}

func (p *Provider) createMessageBatch(w http.ResponseWriter, r *http.Request) *failure {
	var asked struct {
		Requests []struct {
			CustomID string          `json:"custom_id"`
			Params   json.RawMessage `json:"params"`
		} `json:"requests"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxUpload)).Decode(&asked); err != nil {
		return invalid("", "the request is not what POST /v1/messages/batches takes: "+err.Error())
	}
	if n := len(asked.Requests); n == 0 || n > maxBatchItems {
		return invalid("requests", fmt.Sprintf("requests: must have 1 to %d entries, and has %d", maxBatchItems, n))
	}
	b := &batch{id: "msgbatch_", form: formAnthropic}
	seen := map[string]bool{}
	for i, one := range asked.Requests {
		if one.CustomID == "" || seen[one.CustomID] {
			return invalid("requests", fmt.Sprintf("requests.%d.custom_id: must be there, and once only", i))
		}
		seen[one.CustomID] = true
		item := &batchItem{customID: one.CustomID, body: one.Params}
		item.question, item.bad = parseMessages(r, one.Params)
		b.items = append(b.items, item)
	}
	p.batches.add(b, func(b *batch) { _ = showMessageBatch(w, r, b) }) // which never fails
	return nil
}

// messageBatch is a batch as Anthropic shows it. Times are RFC 3339, or null.
type messageBatch struct {
	ID         string         `json:"id"`
	Type       string         `json:"type"`
	Status     string         `json:"processing_status"`
	Counts     map[string]int `json:"request_counts"`
	CreatedAt  string         `json:"created_at"`
	ExpiresAt  string         `json:"expires_at"`
	EndedAt    any            `json:"ended_at"`
	CanceledAt any            `json:"cancel_initiated_at"`
	ArchivedAt any            `json:"archived_at"`
	ResultsURL any            `json:"results_url"`
}

// newMessageBatch shows a batch. Its counts stay at zero until it has ended, as Anthropic's do.
func newMessageBatch(b *batch, host string) messageBatch {
	m := messageBatch{
		ID: b.id, Type: "message_batch", Status: "in_progress", CreatedAt: rfc3339(b.created), ExpiresAt: rfc3339(b.expires),
		Counts: map[string]int{"processing": len(b.items), "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0},
	}
	if at := b.at[stageCanceling]; !at.IsZero() {
		m.Status, m.CanceledAt = "canceling", rfc3339(at)
	}
	if b.ended() {
		m.Status, m.EndedAt = "ended", rfc3339(b.at[b.stage])
		m.ResultsURL = "http://" + host + "/v1/messages/batches/" + b.id + "/results"
		m.Counts["processing"] = 0
		for _, state := range []itemState{itemSucceeded, itemErrored, itemCanceled, itemExpired} {
			m.Counts[string(state)] = b.count(state)
		}
	}
	return m
}

func rfc3339(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// writeResults writes what became of each request, one a line.
func writeResults(w http.ResponseWriter, b *batch) *failure {
	if !b.ended() {
		return invalid("", "the results of a batch can be read when it has ended")
	}
	w.Header().Set("Content-Type", "application/x-jsonl")
	for _, item := range b.items {
		result := map[string]any{"type": item.state}
		switch item.state {
		case itemSucceeded:
			result["message"] = json.RawMessage(item.result)
		case itemErrored:
			result["error"] = json.RawMessage(item.result)
		case itemPending, itemCanceled, itemExpired:
		}
		_, _ = w.Write(marshal(map[string]any{"custom_id": item.customID, "result": result})) // a caller that is gone does not read it
	}
	return nil
}
