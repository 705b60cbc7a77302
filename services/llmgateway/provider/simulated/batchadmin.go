package simulated

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// BatchStatus is a batch as GET /admin/batches shows it.
type BatchStatus struct {
	ID        string         `json:"id"`
	Format    string         `json:"format"`
	Stage     string         `json:"stage"` // validating, in_progress, finalizing, completed, failed, cancelling, cancelled or expired
	CreatedAt time.Time      `json:"created_at"`
	ExpiresAt time.Time      `json:"expires_at"`
	Items     map[string]int `json:"items"` // by state: pending, succeeded, errored, canceled, expired
	CustomIDs []string       `json:"custom_ids"`
}

// Batches returns the batches of all formats, the newest first.
func (p *Provider) Batches() []BatchStatus {
	list := []BatchStatus{}
	p.batches.newest("", func(b *batch) {
		s := BatchStatus{ID: b.id, Format: b.form, Stage: string(b.stage), CreatedAt: b.created, ExpiresAt: b.expires, Items: map[string]int{}}
		for _, item := range b.items {
			s.Items[string(item.state)]++
			s.CustomIDs = append(s.CustomIDs, item.customID)
		}
		list = append(list, s)
	})
	return list
}

// SetBatchPace changes how fast batches go, also those that are going on. With Hold they stay where they are.
func (p *Provider) SetBatchPace(pace BatchPace) { p.batches.set(pace) }

// CompleteBatch ends a batch at once, with every request done. The error is that it cannot.
func (p *Provider) CompleteBatch(id string) error {
	return p.steer(id, func(b *batch) error {
		p.batches.completeNow(b)
		return nil
	})
}

// ExpireBatch ends a batch at once, with only its first done requests done. The error is that it cannot.
func (p *Provider) ExpireBatch(id string, done int) error {
	if done < 0 {
		return fmt.Errorf("done is %d: write how many requests of the batch are done when it expires", done)
	}
	return p.steer(id, func(b *batch) error {
		p.batches.expireNow(b, done)
		return nil
	})
}

// FailBatchItems makes requests of a batch that are not yet done fail with a status. The error is that they cannot.
func (p *Provider) FailBatchItems(id string, status int, customIDs ...string) error {
	if status < 400 || status > 599 {
		return fmt.Errorf("status is %d: write one from 400 to 599", status)
	}
	return p.steer(id, func(b *batch) error {
		for _, customID := range customIDs {
			i := slices.IndexFunc(b.items, func(item *batchItem) bool { return item.customID == customID && item.state == itemPending })
			if i < 0 {
				return fmt.Errorf("batch %s has no request %q that is not done: hold batches before they work", id, customID)
			}
			b.items[i].bad = &failure{kind: failStatus, status: status, message: "A failed batch item was asked for at the simulated provider."}
		}
		return nil
	})
}

// steer does something to a batch that has not ended.
func (p *Provider) steer(id string, use func(*batch) error) (err error) {
	known := p.batches.with("", id, func(b *batch) {
		if b.ended() {
			err = fmt.Errorf("batch %s has ended: it is %s", id, b.stage)
			return
		}
		err = use(b)
	})
	if !known {
		return fmt.Errorf("there is no batch %q", id)
	}
	return err
}

func (p *Provider) registerBatchAdmin() {
	p.mux.HandleFunc("GET /admin/batches", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"batches": p.Batches()})
	})
	p.mux.HandleFunc("GET /admin/batches/pace", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, p.batches.get())
	})
	p.mux.HandleFunc("PUT /admin/batches/pace", func(w http.ResponseWriter, r *http.Request) {
		var pace BatchPace
		if err := decode(r, &pace); err != nil {
			refuseAdmin(w, err)
			return
		}
		p.SetBatchPace(pace)
		writeJSON(w, http.StatusOK, pace)
	})
	p.mux.HandleFunc("POST /admin/batches/{id}/{verb}", p.postBatch)
}

// batchCommand is what the verbs of a batch take.
type batchCommand struct {
	Done      int      `json:"done"`
	Status    int      `json:"status"`
	CustomIDs []string `json:"custom_ids"`
}

func (p *Provider) postBatch(w http.ResponseWriter, r *http.Request) {
	var command batchCommand
	verb, id := r.PathValue("verb"), r.PathValue("id")
	if verb != "complete" {
		if bad := decode(r, &command); bad != nil {
			refuseAdmin(w, bad)
			return
		}
	}
	var err error
	switch verb {
	case "complete":
		err = p.CompleteBatch(id)
	case "expire":
		err = p.ExpireBatch(id, command.Done)
	case "fail":
		if command.Status == 0 {
			command.Status = http.StatusInternalServerError
		}
		err = p.FailBatchItems(id, command.Status, command.CustomIDs...)
	default:
		err = fmt.Errorf("%q is nothing that can be done to a batch: write complete, expire or fail", verb)
	}
	if err != nil {
		refuseAdmin(w, invalid("", err.Error()))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
