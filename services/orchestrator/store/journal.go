package store

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/orchestrator/machine"
)

// entryDetail is the detail of an entry of the journal, as it is shown.
type entryDetail struct {
	Status        string      `json:"status,omitempty"`
	Reason        string      `json:"reason,omitempty"`
	Message       string      `json:"message,omitempty"`
	Comment       string      `json:"comment,omitempty"`
	Generation    int         `json:"generation,omitempty"`
	Shards        int         `json:"shards,omitempty"`
	Worker        string      `json:"worker,omitempty"`
	QueuedAt      *time.Time  `json:"queued_at,omitempty"`
	ClaimedAt     *time.Time  `json:"claimed_at,omitempty"`
	StartedAt     *time.Time  `json:"started_at,omitempty"`
	InputTokens   int64       `json:"input_tokens,omitempty"`
	OutputTokens  int64       `json:"output_tokens,omitempty"`
	Cost          json.Number `json:"cost_usd,omitempty"`
	PromptVersion string      `json:"prompt_version,omitempty"`
	InputDigest   string      `json:"input_digest,omitempty"`
}

// journal appends to core.run_event.
func (g *group) journal(r *run, e machine.Journal, by *Event) {
	detail := entryDetail{
		Status: e.Status, Reason: string(e.Reason), Message: e.Detail, Comment: e.Comment, Generation: e.Generation,
	}
	actor := actorName(e.Actor)
	if report := r.reports(e.Ref, by); report != nil {
		detail.report(report)
		detail.QueuedAt, detail.ClaimedAt = timeOrNil(g.before.QueuedAt), timeOrNil(g.before.ClaimedAt)
		if e.Name == "" {
			actor = "worker:" + detail.Worker
		}
	}
	if e.Step != machine.AllSteps && e.Detail != "" {
		r.explain(e.Key, e.Detail)
	}
	text, err := json.Marshal(&detail)
	if err != nil { // texts, numbers and times within range always have a form in JSON
		text = []byte("{}")
	}
	p := &g.writes.events
	p.RunIds, p.Seqs = append(p.RunIds, r.id), append(p.Seqs, e.Seq)
	p.Actors, p.Kinds = append(p.Actors, actor), append(p.Kinds, string(e.Kind))
	p.Steps, p.Shards = append(p.Steps, r.name(e.Step)), append(p.Shards, int32(e.Shard))
	p.Attempts, p.Details = append(p.Attempts, int32(e.Attempt)), append(p.Details, text)
}

// report adds what the attempt's report says.
func (d *entryDetail) report(report *Report) {
	if report.Worker != uuid.Nil {
		d.Worker = report.Worker.String()
	}
	d.Shards = len(report.Items)
	d.InputTokens, d.OutputTokens = report.InputTokens, report.OutputTokens
	if report.Cost != 0 {
		d.Cost = json.Number(report.Cost.String())
	}
	d.PromptVersion, d.InputDigest = report.PromptVersion, hex.EncodeToString(report.InputDigest)
	d.StartedAt = timeOrNil(report.StartedAt)
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// callbackSnapshot is what the body of a callback is rendered from. The result is not copied: it is the output of a step in
// one generation, which stays readable.
type callbackSnapshot struct {
	RunID      uuid.UUID       `json:"run_id"`
	Event      string          `json:"event"`
	Status     string          `json:"status"`
	Pipeline   string          `json:"pipeline"`
	EntityID   string          `json:"entity_id,omitempty"`
	Labels     json.RawMessage `json:"labels,omitempty"`
	Step       string          `json:"step,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Error      string          `json:"error,omitempty"`
	Undo       string          `json:"undo,omitempty"`
	Cost       json.Number     `json:"cost_usd"`
	StepsDone  int             `json:"steps_done"`
	StepsTotal int             `json:"steps_total"`
	OutputStep string          `json:"output_step,omitempty"`
	Generation int             `json:"output_generation,omitempty"`
	CreatedAt  time.Time       `json:"created_at"`
	FinishedAt *time.Time      `json:"finished_at,omitempty"`
}

// oweCallback notes that the client is owed news of the run, if it asked for this kind.
func (g *group) oweCallback(r *run, e machine.OweCallback) {
	if r.callback == "" || !slices.Contains(r.pipeline.Callbacks, e.Event) {
		return
	}
	h := &r.head
	snapshot := callbackSnapshot{
		RunID: r.id, Event: e.Event, Status: string(h.Status), Pipeline: r.pipeline.Name + ":" + r.pipeline.Version,
		EntityID: r.entityID, Labels: r.labels, Step: r.currentStep(), Reason: string(h.Reason), Error: h.Detail,
		Undo: string(h.Undo), Cost: json.Number(r.ledger.cost.String()), StepsDone: h.StepsDone, StepsTotal: r.plan.Total,
		CreatedAt: h.CreatedAt, FinishedAt: timeOrNil(h.FinishedAt),
	}
	if step, known := r.plan.Index(r.pipeline.OutputStep); known && h.Status == machine.RunDone {
		snapshot.OutputStep, snapshot.Generation = r.pipeline.OutputStep, h.State.Heads[step].Generation
	}
	text, err := json.Marshal(&snapshot)
	if err != nil { // the labels came from a column of type jsonb
		text = []byte("{}")
	}
	p := &g.writes.callbacks
	p.RunIds, p.Seqs, p.Tenants = append(p.RunIds, r.id), append(p.Seqs, e.Seq), append(p.Tenants, r.tenant)
	p.Events, p.Urls, p.Snapshots = append(p.Events, e.Event), append(p.Urls, r.callback), append(p.Snapshots, text)
}
