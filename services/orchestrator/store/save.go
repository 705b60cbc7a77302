package store

import (
	"fmt"

	"github.com/google/uuid"

	"pawl.internal/services/orchestrator/machine"
)

// save adds to the group's writes what has changed of a run and its rows.
func (g *group) save(r *run) error {
	head := g.saveHead
	if r.created != nil {
		head = g.saveCreated
	}
	if err := head(r); err != nil {
		return err
	}
	g.leaveSeat(r)
	changes := r.rows.Changes()
	if len(changes.Drops) > 0 && g.cappedRun(r) {
		g.caps.freed = true
	}
	g.noteTimers(r, &changes)
	for _, d := range changes.Drops {
		g.writes.drop(r, d)
	}
	if changes.Promoted != "" {
		p := &g.writes.promoted
		p.RunIds, p.Classes = append(p.RunIds, r.id), append(p.Classes, string(changes.Promoted))
		g.waiting[changes.Promoted], g.caps.lined[changes.Promoted] = true, true
	}
	if held := r.head.State.Held; held != r.held {
		p := &g.writes.held
		p.RunIds, p.Held = append(p.RunIds, r.id), append(p.Held, held)
		if !held {
			g.caps.lined[r.head.Class] = true
			g.waiting[r.head.Class] = true
		}
	}
	for _, k := range changes.Deleted {
		p := &g.writes.deleted
		p.RunIds, p.Steps, p.Shards = append(p.RunIds, r.id), append(p.Steps, r.name(k.Step)), append(p.Shards, int32(k.Shard))
	}
	for i := range changes.Inserted {
		g.insert(r, &changes.Inserted[i])
	}
	for i := range changes.Updated {
		g.update(r, &changes.Updated[i])
	}
	return nil
}

// saveHead adds the run's row if it differs from the stored one.
func (g *group) saveHead(r *run) error {
	now, err := r.columns()
	if err != nil {
		return fmt.Errorf("run %s: %w", r.id, err)
	}
	if now == r.stored {
		return nil
	}
	g.notices.Changes = append(g.notices.Changes, Change{RunID: r.id, Status: r.head.Status})
	g.tally(r, r.stored, now)
	p := &g.writes.heads
	p.Ids, p.Classes, p.Statuses = append(p.Ids, r.id), append(p.Classes, now.class), append(p.Statuses, now.status)
	p.States, p.CurrentSteps = append(p.States, []byte(now.state)), append(p.CurrentSteps, now.currentStep)
	p.StepsDones, p.SpendEpochs = append(p.StepsDones, int32(now.stepsDone)), append(p.SpendEpochs, int32(now.spendEpoch))
	p.Reasons, p.Errors, p.Undos = append(p.Reasons, now.reason), append(p.Errors, now.detail), append(p.Undos, now.undo)
	p.BudgetsUsd = append(p.BudgetsUsd, now.budget)
	p.CostsUsd, p.CostVersions = append(p.CostsUsd, now.ledger.cost), append(p.CostVersions, now.ledger.costVersion)
	p.Seqs, p.Payloads, p.Bytes = append(p.Seqs, now.seq), append(p.Payloads, now.ledger.payloads), append(p.Bytes, now.ledger.bytes)
	p.DeadlinesAt, p.PausedAt = append(p.DeadlinesAt, now.deadline), append(p.PausedAt, now.paused)
	p.CancelsRequestedAt = append(p.CancelsRequestedAt, now.cancel)
	p.StartedAt, p.FinishedAt = append(p.StartedAt, now.started), append(p.FinishedAt, now.finished)
	return nil
}

func (w *writes) drop(r *run, d machine.Drop) {
	p := &w.dropped
	ordinal := int32(len(p.RunIds))
	p.Ordinals, p.RunIds, p.Steps = append(p.Ordinals, ordinal), append(p.RunIds, r.id), append(p.Steps, r.name(d.Step))
	for _, kept := range d.Keep {
		p.KeptOrdinals = append(p.KeptOrdinals, ordinal)
		p.KeptSteps, p.KeptShards = append(p.KeptSteps, r.name(kept.Step)), append(p.KeptShards, int32(kept.Shard))
	}
}

func (g *group) insert(r *run, l *machine.Live) {
	p := &g.writes.inserted
	line := r.lineKey()
	item := r.items[l.Key]
	p.RunIds, p.Steps, p.Shards = append(p.RunIds, r.id), append(p.Steps, r.name(l.Step)), append(p.Shards, int32(l.Shard))
	p.Generations, p.Tenants = append(p.Generations, int32(l.Generation)), append(p.Tenants, r.tenant)
	p.Items, p.ItemPayloads = append(p.Items, item.inline), append(p.ItemPayloads, item.payload)
	p.Classes, p.Priorities = append(p.Classes, string(l.Class)), append(p.Priorities, r.priority)
	p.Begun, p.Paused = append(p.Begun, !r.head.StartedAt.IsZero()), append(p.Paused, r.head.State.Held)
	p.Held = append(p.Held, r.head.State.Held || line.line != "")
	p.Lines, p.LineKeys = append(p.Lines, line.line), append(p.LineKeys, line.key)
	p.MaxSteps, p.MaxRuns = append(p.MaxSteps, int32(r.pipeline.MaxSteps)), append(p.MaxRuns, int32(r.pipeline.MaxRuns))
	p.Counted = append(p.Counted, l.Status == machine.StepQueued && g.counts(r))
	p.Statuses = append(p.Statuses, string(l.Status))
	p.Attempts, p.Failures, p.Losses = append(p.Attempts, int32(l.Attempt)), append(p.Failures, int32(l.Failures)), append(p.Losses, int32(l.Losses))
	p.Calls, p.AskBases = append(p.Calls, int32(l.Calls)), append(p.AskBases, int32(l.AskBase))
	p.AmbiguousOks, p.Unsure = append(p.AmbiguousOks, int32(l.AmbiguousOK)), append(p.Unsure, l.Unsure)
	p.ClaimNos, p.Fences = append(p.ClaimNos, int32(l.ClaimNo)), append(p.Fences, uuid.UUID(l.Fence))
	p.LastFences, p.Workers = append(p.LastFences, uuid.UUID(l.LastFence)), append(p.Workers, uuid.UUID(l.Worker))
	p.Reasons, p.Errors = append(p.Reasons, string(l.Reason)), append(p.Errors, r.explanation(l))
	p.DueAt, p.ReadyAt = append(p.DueAt, l.DueAt), append(p.ReadyAt, l.ReadyAt)
	p.QueuedAt, p.ClaimedAt = append(p.QueuedAt, l.QueuedAt), append(p.ClaimedAt, l.ClaimedAt)
}

func (g *group) update(r *run, l *machine.Live) {
	p := &g.writes.updated
	p.RunIds, p.Steps, p.Shards = append(p.RunIds, r.id), append(p.Steps, r.name(l.Step)), append(p.Shards, int32(l.Shard))
	p.Generations = append(p.Generations, int32(l.Generation))
	p.Classes, p.Statuses = append(p.Classes, string(l.Class)), append(p.Statuses, string(l.Status))
	p.Begun, p.Counted = append(p.Begun, !r.head.StartedAt.IsZero()), append(p.Counted, g.counts(r))
	p.Attempts, p.Failures, p.Losses = append(p.Attempts, int32(l.Attempt)), append(p.Failures, int32(l.Failures)), append(p.Losses, int32(l.Losses))
	p.Calls, p.AskBases = append(p.Calls, int32(l.Calls)), append(p.AskBases, int32(l.AskBase))
	p.AmbiguousOks, p.Unsure = append(p.AmbiguousOks, int32(l.AmbiguousOK)), append(p.Unsure, l.Unsure)
	p.ClaimNos, p.Fences = append(p.ClaimNos, int32(l.ClaimNo)), append(p.Fences, uuid.UUID(l.Fence))
	p.LastFences, p.Workers = append(p.LastFences, uuid.UUID(l.LastFence)), append(p.Workers, uuid.UUID(l.Worker))
	p.Reasons, p.Errors = append(p.Reasons, string(l.Reason)), append(p.Errors, r.explanation(l))
	p.DueAt, p.ReadyAt = append(p.DueAt, l.DueAt), append(p.ReadyAt, l.ReadyAt)
	p.QueuedAt, p.ClaimedAt = append(p.QueuedAt, l.QueuedAt), append(p.ClaimedAt, l.ClaimedAt)
}

// explanation is the newest failure of a row in words; empty for a row that has none.
func (r *run) explanation(l *machine.Live) string {
	if l.Reason == "" {
		return ""
	}
	return r.details[l.Key]
}

// keepItems stores the items of a fan-out, which the rows of its shards then refer to.
func (g *group) keepItems(r *run, step int, items []Document) {
	if len(items) > 0 && r.items == nil {
		r.items = make(map[machine.Key]storedDocument, len(items))
	}
	for shard, item := range items {
		r.items[machine.Key{Step: step, Shard: shard}] = g.keep(r, item)
	}
}
