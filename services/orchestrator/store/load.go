package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store/db"
)

// load locks the runs of the events, then, in new statements, reads them and the rows that the machine wants. In READ
// COMMITTED a statement sees what was committed when it began: rows read by the statement that waits for the locks would be
// those from before the wait, and two replicas finishing the last two shards of a fan-out would each see the other running.
func (g *group) load(ctx context.Context, events []*Event) error {
	ids := runsOf(events)
	if err := g.query.LockRuns(ctx, ids); err != nil {
		return err
	}
	rows, err := g.query.ReadRuns(ctx, ids)
	if err != nil {
		return fmt.Errorf("read runs: %w", err)
	}
	if err := g.addRuns(ctx, rows); err != nil {
		return err
	}
	if err := g.loadBudgets(ctx); err != nil {
		return err
	}
	g.assign(events)
	wanted := g.wants(events)
	if err := wanted.find(ctx, g.query); err != nil {
		return err
	}
	if err := g.loadRows(ctx, wanted); err != nil {
		return err
	}
	return g.findOversize(ctx, events)
}

// runsOf returns the ids of the events' runs, in order.
func runsOf(events []*Event) []uuid.UUID {
	ids := make([]uuid.UUID, len(events))
	for i, e := range events {
		ids[i] = e.RunID
	}
	slices.SortFunc(ids, compareIDs)
	return slices.Compact(ids)
}

func (g *group) addRuns(ctx context.Context, rows []db.ReadRunsRow) error {
	wanted := make(map[Digest]owned, 1)
	for i := range rows {
		digest := Digest(rows[i].PipelineDigest)
		wanted[digest] = owned{tenant: rows[i].Tenant, digest: digest}
	}
	found, broken, err := g.store.pipelines.load(ctx, g.query, wanted)
	if err != nil {
		return err
	}
	for i := range rows {
		row := &rows[i]
		g.tell(row.Now)
		digest := Digest(row.PipelineDigest)
		if found[digest] == nil {
			g.unreadable(row.ID, broken[digest])
			continue
		}
		r, err := loadRun(row, found[digest])
		if err != nil {
			g.unreadable(row.ID, err)
			continue
		}
		g.runs[row.ID] = r
	}
	return nil
}

// loadBudgets finds out the budgets of the batches, for those who claim steps.
func (g *group) loadBudgets(ctx context.Context) error {
	var ids []uuid.UUID
	for _, r := range g.runs {
		if r.batch != uuid.Nil && !slices.Contains(ids, r.batch) {
			ids = append(ids, r.batch)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var err error
	g.batchBudgets, err = g.store.budgets.of(ctx, g.query, ids)
	return err
}

// unreadable notes that a stored run makes no sense to this build: its events fail, and no others.
func (g *group) unreadable(id uuid.UUID, why error) {
	if why == nil {
		why = errors.New("its pipeline is missing")
	}
	if g.broken == nil {
		g.broken = map[uuid.UUID]error{}
	}
	g.broken[id] = fmt.Errorf("run %s: %w", id, why)
}

// assign fails the events that have no run, and puts the runs in the order of their first events.
func (g *group) assign(events []*Event) {
	for _, e := range events {
		r := g.runs[e.RunID]
		switch {
		case r == nil:
			e.refused = ErrNoRun
			if why := g.broken[e.RunID]; why != nil {
				e.refused = why
			}
		case e.Tenant != "" && e.Tenant != r.tenant:
			e.refused = ErrNoRun
		case !r.listed:
			r.listed = true
			g.order = append(g.order, r)
		}
	}
}

// rowKey names a row of core.step_live or core.pipeline_step_result.
type rowKey struct {
	run *run
	machine.Key
}

// wanted is what the machine wants of a group's runs.
type wanted struct {
	runs    map[uuid.UUID]*run
	keys    []rowKey
	seen    map[rowKey]bool
	pending map[rowKey]int // shards wanted of a step, by its own row's key
	review  []*run
	begun   []rowKey
	results []rowKey
}

func (g *group) wants(events []*Event) *wanted {
	w := &wanted{runs: g.runs, seen: make(map[rowKey]bool, len(events)), pending: map[rowKey]int{}}
	for _, e := range events {
		if e.refused == nil && e.Make != nil {
			r := g.runs[e.RunID]
			need := machine.Wants(r.plan, &r.head, e.Make(r.ref(e.Ref), g.now))
			// What such an event needs depends on the state that it finds: behind another of its run it goes to a later group.
			g.conflict = g.conflict || need.First && r.wanting
			r.wanting = true
			w.add(r, need)
		}
	}
	return w
}

func (w *wanted) add(r *run, need machine.Need) {
	for _, k := range need.Keys {
		w.key(rowKey{r, k})
	}
	for _, step := range need.Pending {
		w.pending[rowKey{r, machine.Key{Step: step, Shard: Whole}}]++
	}
	if need.Review && !slices.Contains(w.review, r) {
		w.review = append(w.review, r)
	}
	for _, step := range need.Begun {
		w.begun = append(w.begun, rowKey{r, machine.Key{Step: step, Shard: Whole}})
	}
	for _, step := range need.Results {
		w.results = append(w.results, rowKey{r, machine.Key{Step: step, Shard: Whole}})
	}
}

func (w *wanted) key(k rowKey) {
	if !w.seen[k] {
		w.seen[k] = true
		w.keys = append(w.keys, k)
	}
}

// keyArrays are keys of rows as the queries take them.
type keyArrays struct {
	runs   []uuid.UUID
	steps  []string
	shards []int32
}

func arraysOf(keys []rowKey) keyArrays {
	a := keyArrays{
		runs: make([]uuid.UUID, len(keys)), steps: make([]string, len(keys)), shards: make([]int32, len(keys)),
	}
	for i, k := range keys {
		a.runs[i], a.steps[i], a.shards[i] = k.run.id, k.run.name(k.Step), int32(k.Shard)
	}
	return a
}

// loadRows reads the rows wanted: the live ones, and the stored results of those that are not live.
func (g *group) loadRows(ctx context.Context, w *wanted) error {
	live, err := g.readLive(ctx, w.keys)
	if err != nil {
		return fmt.Errorf("read steps: %w", err)
	}
	ended := w.without(live)
	results, err := g.readResults(ctx, ended, w.results)
	if err != nil {
		return fmt.Errorf("read results: %w", err)
	}
	for _, r := range g.order {
		r.rows = machine.NewRows(live[r], results[r])
	}
	return nil
}

// without returns the keys that no row was found for.
func (w *wanted) without(live map[*run][]machine.Live) []rowKey {
	found := make(map[rowKey]bool, len(w.keys))
	for r, rows := range live {
		for i := range rows {
			found[rowKey{r, rows[i].Key}] = true
		}
	}
	var missing []rowKey
	for _, k := range w.keys {
		if !found[k] {
			missing = append(missing, k)
		}
	}
	return missing
}

func (g *group) readLive(ctx context.Context, keys []rowKey) (map[*run][]machine.Live, error) {
	live := make(map[*run][]machine.Live, len(g.order))
	if len(keys) == 0 {
		return live, nil
	}
	a := arraysOf(keys)
	rows, err := g.query.ReadLive(ctx, db.ReadLiveParams{RunIds: a.runs, Steps: a.steps, Shards: a.shards})
	if err != nil {
		return nil, err
	}
	for i := range rows {
		r := g.runs[rows[i].RunID]
		l := liveOf(r, &rows[i])
		live[r] = append(live[r], l)
		if rows[i].Error != "" {
			r.explain(l.Key, rows[i].Error)
		}
	}
	return live, nil
}

func liveOf(r *run, row *db.ReadLiveRow) machine.Live {
	step, _ := r.plan.Index(row.Step)
	return machine.Live{
		Key: machine.Key{Step: step, Shard: int(row.Shard)}, Generation: int(row.Generation),
		Status: machine.StepStatus(row.Status), Class: machine.Class(row.Class),
		Attempt: int(row.Attempt), Failures: int(row.Failures), Losses: int(row.Losses), Calls: int(row.Calls),
		ClaimNo: int(row.ClaimNo), Fence: idOr0(row.Fence), LastFence: idOr0(row.LastFence), Worker: idOr0(row.Worker),
		AskBase: int(row.AskBase), AmbiguousOK: int(row.AmbiguousOk), Unsure: row.Unsure,
		DueAt: timeOr0(row.DueAt), ReadyAt: timeOr0(row.ReadyAt), QueuedAt: timeOr0(row.QueuedAt),
		ClaimedAt: timeOr0(row.ClaimedAt), Reason: machine.Reason(row.Reason),
	}
}

// readResults reads the results of single rows, and of all shards of some steps, in their current generation.
func (g *group) readResults(ctx context.Context, keys, steps []rowKey) (map[*run][]machine.Result, error) {
	results := map[*run][]machine.Result{}
	if len(keys) > 0 {
		a := arraysOf(keys)
		rows, err := g.query.ReadResults(ctx, db.ReadResultsParams{RunIds: a.runs, Steps: a.steps, Shards: a.shards})
		if err != nil {
			return nil, err
		}
		for i := range rows {
			g.keepResult(results, &rows[i])
		}
	}
	if len(steps) > 0 {
		a := arraysOf(steps)
		rows, err := g.query.ReadShardResults(ctx, a.runs, a.steps)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			g.keepResult(results, (*db.ReadResultsRow)(&rows[i]))
		}
	}
	return results, nil
}

func (g *group) keepResult(results map[*run][]machine.Result, row *db.ReadResultsRow) {
	r := g.runs[row.RunID]
	step, _ := r.plan.Index(row.Step)
	if r.head.State.Heads[step].Generation != int(row.Generation) {
		return
	}
	results[r] = append(results[r], machine.Result{
		Key: machine.Key{Step: step, Shard: int(row.Shard)}, Generation: int(row.Generation),
		Status: machine.StepStatus(row.Status), Reason: machine.Reason(row.Reason), Fence: idOr0(row.Fence),
		Attempt: int(row.Attempt), ClaimNo: int(row.ClaimNo), AskBase: int(row.AskBase),
	})
}
