package store

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/orchestrator/machine"
)

// tallies are the differences that a group makes to the counts of batches and of tenants: one row for a batch, state and
// reason, and one for a tenant and class, so that no count is a hot row.
type tallies struct {
	batches map[batchCount]*batchDelta
	tenants map[tenantCount]int64
}

type batchCount struct {
	batch          uuid.UUID
	status, reason string
}

type batchDelta struct {
	n       int64
	cost    money.Pico
	example uuid.UUID
}

type tenantCount struct{ tenant, class string }

// tally notes how a run changes the counts. Before is the zero value for a run that is created.
func (g *group) tally(r *run, before, now columns) {
	if from, to := busy(before), busy(now); from != to || before.class != now.class {
		g.tallies.tenant(r.tenant, before.class, -from)
		g.tallies.tenant(r.tenant, now.class, to)
	}
	if r.batch == uuid.Nil {
		return
	}
	was, is := counted(r.batch, before), counted(r.batch, now)
	cost := now.ledger.cost - before.ledger.cost
	if was == is && cost == 0 {
		return
	}
	if before.status != "" {
		g.tallies.batch(was).n--
	}
	d := g.tallies.batch(is)
	d.n, d.cost, d.example = d.n+1, d.cost+cost, r.id
}

// busy is 1 for a run that counts as unfinished: one that waits for a person needs nothing of ours.
func busy(c columns) int64 {
	switch machine.RunStatus(c.status) {
	case machine.RunQueued, machine.RunRunning, machine.RunCompensating:
		return 1
	default:
		return 0
	}
}

// counted is the count that a run of a batch belongs to. Reasons are told apart where they say why there is no result.
func counted(batch uuid.UUID, c columns) batchCount {
	k := batchCount{batch: batch, status: c.status}
	switch machine.RunStatus(c.status) {
	case machine.RunFailed, machine.RunCancelled, machine.RunNeedsReview:
		k.reason = c.reason
	default:
	}
	return k
}

func (t *tallies) tenant(tenant, class string, by int64) {
	if by == 0 {
		return
	}
	if t.tenants == nil {
		t.tenants = map[tenantCount]int64{}
	}
	t.tenants[tenantCount{tenant, class}] += by
}

func (t *tallies) batch(k batchCount) *batchDelta {
	if t.batches == nil {
		t.batches = map[batchCount]*batchDelta{}
	}
	if t.batches[k] == nil {
		t.batches[k] = &batchDelta{}
	}
	return t.batches[k]
}

// writeTallies adds the differences. Runs that came and went within the group leave none.
func (g *group) writeTallies(ctx context.Context) error {
	p := &g.writes.batchDeltas
	for k, d := range g.tallies.batches {
		if d.n == 0 && d.cost == 0 {
			continue
		}
		p.BatchIds, p.Statuses, p.Reasons = append(p.BatchIds, k.batch), append(p.Statuses, k.status), append(p.Reasons, k.reason)
		p.Ns, p.CostsUsd, p.Examples = append(p.Ns, d.n), append(p.CostsUsd, d.cost), append(p.Examples, d.example)
	}
	if len(p.BatchIds) > 0 {
		if err := g.query.InsertBatchDeltas(ctx, *p); err != nil {
			return err
		}
	}
	t := &g.writes.tenantDeltas
	for k, n := range g.tallies.tenants {
		if n != 0 {
			t.Tenants, t.Classes, t.Ns = append(t.Tenants, k.tenant), append(t.Classes, k.class), append(t.Ns, n)
		}
	}
	if len(t.Tenants) == 0 {
		return nil
	}
	return g.query.InsertTenantDeltas(ctx, *t)
}

// batchesOf lists the batches of runs, each once.
func batchesOf(runs []*NewRun) (ids []uuid.UUID) {
	for _, n := range runs {
		if n.Batch != uuid.Nil && !slices.Contains(ids, n.Batch) {
			ids = append(ids, n.Batch)
		}
	}
	return ids
}
