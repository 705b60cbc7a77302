package store

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store/db"
)

// ErrCapped refuses the dispatch of a step whose tenant, pipeline or key has no room, or whose caps another transaction is
// deciding about. The step stays READY.
var ErrCapped = errors.New("a cap leaves no room for the step")

// caps decides in a group about steps that caps concern.
//
// What is dispatched under a cap is decided in the transaction that dispatches it, under a lock of the tenant's that every
// replica takes, and by counting rows: so a cap holds for any number of replicas, and needs no counter that a step would have
// to give back in each of the ways in which it can leave. The lock is only tried. A group never waits for it, since it holds
// the steps of others too: whoever does not get it leaves its steps READY, for the dispatcher.
type caps struct {
	// rooms are the allowances of the tenants whose lock the transaction has; those that it tried to get have an entry.
	rooms map[string]*allowance
	// holders are the runs that count against keys.
	holders map[seat]int
	// lined are the classes in which steps wait for a cap; freed says that one has room again.
	lined map[machine.Class]bool
	freed bool
}

// seat names a key of a pipeline.
type seat struct {
	tenant string
	lineKey
}

// cappedRun reports whether caps concern the run's steps.
func (g *group) cappedRun(r *run) bool { return r.lineKey().line != "" || g.counts(r) }

// counts reports whether the run's steps count against a cap of their tenant or pipeline.
func (g *group) counts(r *run) bool {
	return r.pipeline.MaxSteps > 0 || g.store.policy(r.tenant).MaxSteps > 0
}

// lineKey is the line in which the run's READY steps wait.
func (r *run) lineKey() lineKey {
	key := r.waitsForKey()
	if r.pipeline.MaxSteps == 0 && key == "" {
		return lineKey{}
	}
	return lineKey{line: r.pipeline.Name, key: key}
}

// waitsForKey returns the key of a run that does not count against its limit yet.
func (r *run) waitsForKey() string {
	if r.seated || r.pipeline.MaxRuns == 0 {
		return ""
	}
	return r.key
}

// decideOn prepares for deciding about steps of the runs: it takes the locks of their tenants' caps, as far as they are free,
// and reads what counts against them. The count is a statement of its own: it must see what others committed under the lock.
func (g *group) decideOn(ctx context.Context, runs []*run) error {
	var tenants []string
	for _, r := range runs {
		if _, asked := g.caps.rooms[r.tenant]; !asked {
			g.caps.rooms[r.tenant] = nil
			tenants = append(tenants, r.tenant)
		}
	}
	if len(tenants) == 0 {
		return nil
	}
	locked, err := g.query.LockCaps(ctx, tenants)
	if err != nil || len(locked) == 0 {
		return err
	}
	counted, err := countFlight(ctx, g.query, locked)
	if err != nil {
		return err
	}
	for _, tenant := range locked {
		g.caps.rooms[tenant] = newAllowance(counted[tenant], g.store.policy(tenant).MaxSteps)
	}
	return nil
}

// countHolders reads how many runs count against the keys that the runs wait for.
func (g *group) countHolders(ctx context.Context, runs []*run) error {
	p := db.CountHoldersParams{}
	for _, r := range runs {
		s := seat{r.tenant, r.lineKey()}
		if _, known := g.caps.holders[s]; known || s.key == "" || g.caps.rooms[r.tenant] == nil {
			continue
		}
		g.caps.holders[s] = 0
		p.Tenants, p.Pipelines, p.Keys = append(p.Tenants, s.tenant), append(p.Pipelines, s.line), append(p.Keys, s.key)
	}
	if len(p.Tenants) == 0 {
		return nil
	}
	rows, err := g.query.CountHolders(ctx, p)
	for _, row := range rows {
		g.caps.holders[seat{row.Tenant, lineKey{row.Pipeline, row.Key}}] = int(row.N)
	}
	return err
}

// prepare is decideOn and countHolders for the runs that caps concern.
func (g *group) prepare(ctx context.Context, runs []*run) error {
	if len(runs) == 0 {
		return nil
	}
	if err := g.decideOn(ctx, runs); err != nil {
		return err
	}
	return g.countHolders(ctx, runs)
}

// prepareDispatch prepares for the events by which the dispatcher asks for steps that caps concern.
func (g *group) prepareDispatch(ctx context.Context, events []*Event) error {
	var runs []*run
	for _, e := range events {
		if r := g.runs[e.RunID]; e.refused == nil && e.Dispatch && g.cappedRun(r) {
			runs = append(runs, r)
		}
	}
	return g.prepare(ctx, runs)
}

// admit takes room for a step of the run under its caps, and reports whether there was.
func (g *group) admit(r *run) bool {
	if !g.cappedRun(r) {
		return true
	}
	line := r.lineKey()
	room := g.caps.rooms[r.tenant]
	return room != nil && room.take(demand{
		lineKey: line, run: r.id, maxSteps: r.pipeline.MaxSteps, maxRuns: r.pipeline.MaxRuns,
		holders: g.caps.holders[seat{r.tenant, line}],
	})
}

// takeSeat lets the run, of which a step is dispatched, count against the limit of its key until it ends.
func (g *group) takeSeat(r *run) {
	if key := r.waitsForKey(); key != "" {
		r.seated = true
		p := &g.writes.seated
		p.RunIds, p.Tenants = append(p.RunIds, r.id), append(p.Tenants, r.tenant)
		p.Pipelines, p.Keys = append(p.Pipelines, r.pipeline.Name), append(p.Keys, key)
	}
}

// leaveSeat ends that with the run, and tells the dispatcher.
func (g *group) leaveSeat(r *run) {
	if r.seated && r.head.Status.Terminal() {
		g.writes.unseated = append(g.writes.unseated, r.id)
		g.caps.freed = true
	}
}

// admitReady decides which of the steps that have become READY may be dispatched at once, of those that caps concern, and
// returns the others' places. None goes past those that wait already.
func (g *group) admitReady(ctx context.Context) (left map[int]bool, err error) {
	var runs []*run
	var places []int
	for i, step := range g.ready {
		if step.waits() && g.cappedRun(step.run) {
			runs, places = append(runs, step.run), append(places, i)
		}
	}
	if len(runs) == 0 {
		return nil, nil
	}
	if err := g.prepare(ctx, runs); err != nil {
		return nil, err
	}
	behind, err := g.findBehind(ctx, places)
	if err != nil {
		return nil, err
	}
	left = map[int]bool{}
	for _, i := range places {
		if step := g.ready[i]; behind[i] || !g.admit(step.run) {
			left[i] = true
			g.caps.lined[step.class] = true
		}
	}
	return left, nil
}

// findBehind returns the places of READY steps behind which others wait already that they must not pass.
func (g *group) findBehind(ctx context.Context, places []int) (map[int]bool, error) {
	p := db.FindLinesThatWaitParams{}
	for _, i := range places {
		step := g.ready[i]
		line := step.run.lineKey()
		if g.caps.rooms[step.run.tenant] == nil {
			continue // it stays READY anyway
		}
		p.Numbers, p.Classes = append(p.Numbers, int32(i)), append(p.Classes, string(step.class))
		p.Tenants, p.Lines, p.LineKeys = append(p.Tenants, step.run.tenant), append(p.Lines, line.line), append(p.LineKeys, line.key)
		p.Whole = append(p.Whole, g.store.policy(step.run.tenant).MaxSteps > 0)
	}
	behind := map[int]bool{}
	if len(p.Numbers) == 0 {
		return behind, nil
	}
	rows, err := g.query.FindLinesThatWait(ctx, p)
	for _, n := range rows {
		behind[int(n)] = true
	}
	return behind, err
}

// seats are runs that begin to count against the limits of their keys.
type seats struct {
	RunIds                   []uuid.UUID
	Tenants, Pipelines, Keys []string
}
