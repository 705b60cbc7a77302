package store

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/orchestrator/machine"
)

// noLimit stands for NULL in arrays of budgets.
const noLimit = -money.Dollar

// effect notes what an effect of the machine writes or publishes. By is the event it comes from; nil when it is the store's
// own.
func (g *group) effect(r *run, effect machine.Effect, by *Event) {
	switch e := effect.(type) {
	case machine.StoreResult:
		g.storeResult(r, e, by)
	case machine.Journal:
		g.journal(r, e, by)
	case machine.Dispatchable:
		g.ready = append(g.ready, readyStep{run: r, ref: e.Ref, class: e.Class})
	case machine.Publish:
		g.takeSeat(r)
		g.notices.Entries = append(g.notices.Entries, Entry{
			Class: e.Class, Ref: Ref{RunID: r.id, Step: r.name(e.Step), Shard: e.Shard, Generation: e.Generation},
		})
	case machine.BeginEffect:
		g.beginEffect(r, e)
	case machine.CloseSpend:
		g.spendGate(r, e.Epoch, false)
	case machine.OpenSpend:
		g.spendGate(r, e.Epoch, true)
	case machine.CancelCalls:
		g.cancelCalls(r, e)
	case machine.OweCallback:
		g.oweCallback(r, e)
	default:
		g.effectOnHistory(r, effect, by)
	}
}

// effectOnHistory notes the effects that concern reviews and results of before.
func (g *group) effectOnHistory(r *run, effect machine.Effect, by *Event) {
	switch e := effect.(type) {
	case machine.OpenReview:
		g.once(r, e.Key, by)
		p := &g.writes.reviews
		p.Ids, p.Tenants, p.RunIds = append(p.Ids, g.store.ids.V7()), append(p.Tenants, r.tenant), append(p.RunIds, r.id)
		p.Steps, p.Shards = append(p.Steps, r.name(e.Step)), append(p.Shards, int32(e.Shard))
		p.Generations = append(p.Generations, int32(e.Generation))
		p.Reasons, p.Details = append(p.Reasons, string(e.Reason)), append(p.Details, e.Detail)
	case machine.CloseReview:
		g.once(r, e.Key, by)
		g.closeReviews(r, e.Key, false, e.By, e.Actor, nil)
	case machine.CloseReviews:
		g.onceAll(r, e.Step, by)
		g.closeReviews(r, machine.Key{Step: e.Step, Shard: Whole}, true, e.By, e.Actor, e.Keep)
	case machine.MarkCompensated:
		p := &g.writes.compensated
		p.RunIds, p.Steps, p.Shards = append(p.RunIds, r.id), append(p.Steps, r.name(e.Step)), append(p.Shards, int32(e.Shard))
	case machine.ArchiveResults:
		g.onceAll(r, e.Step, by)
		p := &g.writes.archived
		p.RunIds, p.Steps, p.Seqs = append(p.RunIds, r.id), append(p.Steps, r.name(e.Step)), append(p.Seqs, r.head.Seq)
	}
}

// reports returns what the event brought for the step or shard, if it is the event's own: the end of a last shard also ends
// its parent, which has no tokens and no output of its own.
func (r *run) reports(ref machine.Ref, by *Event) *Report {
	if by == nil || by.Report == nil || r.ref(by.Ref) != ref {
		return nil
	}
	return by.Report
}

// once makes the group fail, and so be split, when two of its events write the result or the review of one step or shard: a
// statement changes a row once, and those that replace run before those that store.
func (g *group) once(r *run, k machine.Key, by *Event) {
	if r.wrote == nil {
		r.wrote = map[machine.Key]*Event{}
	}
	if first, again := r.wrote[k]; again && first != by {
		g.conflict = true
	}
	r.wrote[k] = by
}

// onceAll is once for a step with its shards, or for all steps.
func (g *group) onceAll(r *run, step int, by *Event) {
	for k, first := range r.wrote {
		if first != by && (step == machine.AllSteps || step == k.Step) {
			g.conflict = true
		}
	}
}

func (g *group) storeResult(r *run, e machine.StoreResult, by *Event) {
	report := r.reports(e.Ref, by)
	if report == nil {
		report = &Report{}
	}
	g.once(r, e.Key, by)
	output := g.keep(r, report.Output)
	p := &g.writes.results
	p.RunIds, p.Steps, p.Shards = append(p.RunIds, r.id), append(p.Steps, r.name(e.Step)), append(p.Shards, int32(e.Shard))
	p.Generations = append(p.Generations, int32(e.Generation))
	p.Statuses, p.Attempts = append(p.Statuses, string(e.Status)), append(p.Attempts, int32(e.Attempt))
	p.Outputs, p.OutputPayloads = append(p.Outputs, output.inline), append(p.OutputPayloads, output.payload)
	p.OutputBytes = append(p.OutputBytes, int32(output.size))
	p.InputTokens, p.OutputTokens = append(p.InputTokens, report.InputTokens), append(p.OutputTokens, report.OutputTokens)
	p.CostsUsd = append(p.CostsUsd, report.Cost)
	p.Reasons, p.Errors = append(p.Reasons, string(e.Reason)), append(p.Errors, e.Detail)
	p.Fences, p.Workers = append(p.Fences, uuid.UUID(e.Fence)), append(p.Workers, uuid.UUID(e.Worker))
	p.ClaimNos, p.AskBases = append(p.ClaimNos, int32(e.ClaimNo)), append(p.AskBases, int32(e.AskBase))
	p.QueuedAt = append(p.QueuedAt, e.QueuedAt)
	p.StartedAt = append(p.StartedAt, e.ClaimedAt)
}

// storedDocument is a document as a row refers to it.
type storedDocument struct {
	inline  []byte
	payload int32 // number in core.payload; 0 when inline
	size    int
}

// keep stores a document with its run: beside its row, or as a payload of its own.
func (g *group) keep(r *run, d Document) storedDocument {
	kept := storedDocument{inline: d.inline, size: d.size}
	r.ledger.bytes += int64(d.size)
	if d.packed != nil {
		r.ledger.payloads++
		kept.payload = r.ledger.payloads
		p := &g.writes.payloads
		p.RunIds, p.Numbers = append(p.RunIds, r.id), append(p.Numbers, kept.payload)
		p.Bytes, p.Contents = append(p.Bytes, int32(d.size)), append(p.Contents, d.packed)
	}
	return kept
}

func (g *group) beginEffect(r *run, e machine.BeginEffect) {
	g.durable = true
	p := &g.writes.effects
	step := r.name(e.Step)
	p.RunIds, p.Steps, p.Shards = append(p.RunIds, r.id), append(p.Steps, step), append(p.Shards, int32(e.Shard))
	p.Generations = append(p.Generations, int32(e.Generation))
	p.Keys = append(p.Keys, fmt.Sprintf("%s/%s/%d/%d", r.id, step, e.Shard, e.Generation))
}

// spendGate owes the gateway the closing or opening of the run's purse. It never hears of runs that ask no model.
func (g *group) spendGate(r *run, epoch int, open bool) {
	if r.pipeline.NoCalls {
		return
	}
	g.notices.Owed = true
	if open { // calls of the run must not be aborted any more
		g.conflict = g.conflict || slices.Contains(g.writes.cancels.RunIds, r.id)
		g.writes.reopened = append(g.writes.reopened, r.id)
	}
	p := &g.writes.gates
	// A statement may change a row once: the newest gate of a run takes the place of an earlier one.
	if i := slices.Index(p.RunIds, r.id); i >= 0 {
		p.Epochs[i], p.Open[i] = int32(epoch), open
		return
	}
	p.RunIds, p.Tenants = append(p.RunIds, r.id), append(p.Tenants, r.tenant)
	p.Epochs, p.Open = append(p.Epochs, int32(epoch)), append(p.Open, open)
	p.BudgetsUsd = append(p.BudgetsUsd, orNoLimit(r.budget))
}

func (g *group) cancelCalls(r *run, e machine.CancelCalls) {
	if r.pipeline.NoCalls {
		return
	}
	g.notices.Owed = true
	p := &g.writes.cancels
	p.RunIds, p.Steps = append(p.RunIds, r.id), append(p.Steps, r.name(e.Step))
	p.Generations = append(p.Generations, int32(e.Generation))
}

// closeReviews resolves reviews of a step or shard, of a step with all shards, or of the run; those to keep stay open.
func (g *group) closeReviews(r *run, k machine.Key, whole bool, by machine.Kind, actor machine.Actor, keep []machine.Key) {
	p := &g.writes.resolved
	ordinal := int32(len(p.RunIds))
	p.Ordinals, p.RunIds = append(p.Ordinals, ordinal), append(p.RunIds, r.id)
	p.Steps, p.Shards, p.Whole = append(p.Steps, r.name(k.Step)), append(p.Shards, int32(k.Shard)), append(p.Whole, whole)
	p.Actors, p.Actions, p.Comments = append(p.Actors, actorName(actor)), append(p.Actions, string(by)), append(p.Comments, actor.Comment)
	for _, kept := range keep {
		p.KeptOrdinals = append(p.KeptOrdinals, ordinal)
		p.KeptSteps, p.KeptShards = append(p.KeptSteps, r.name(kept.Step)), append(p.KeptShards, int32(kept.Shard))
	}
}

func orNoLimit(budget *money.Pico) money.Pico {
	if budget == nil {
		return noLimit
	}
	return *budget
}

// actorName is how the journal names who decided: a person, or the system.
func actorName(a machine.Actor) string {
	if a.Name == "" {
		return "system"
	}
	return a.Name
}
