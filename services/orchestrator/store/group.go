package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store/db"
)

// errConflict makes the collector split a group.
var errConflict = errors.New("two events of the group write the same result")

// group is one transaction: the runs that its events concern, and what is to be written.
type group struct {
	store *Store
	pipe  *pg.Pipe
	query *db.Queries

	// now is PostgreSQL's clock, read after the locks were taken, and read this process's when the answer was there.
	now, read time.Time
	runs      map[uuid.UUID]*run
	// broken are runs that were read and make no sense.
	broken map[uuid.UUID]error
	// order has the runs as their first events came, so that a group does the same whenever it is repeated.
	order []*run
	// before is the row of the event being applied, as it was; zero if it has none.
	before machine.Live
	// oversize are the claims that must not be granted, since the step would be given too much.
	oversize map[*Event]bool
	// freed counts, by class, the steps that left the window.
	freed map[machine.Class]int
	// ready are the steps that have become READY, in order.
	ready []readyStep
	// admitted are those that the window has room for, and that therefore were QUEUED at once.
	admitted map[machine.Class]int
	// waiting are the classes in which steps wait for the dispatcher.
	waiting map[machine.Class]bool
	caps    caps
	// conflict says that the group must be split; single that it cannot be.
	conflict, single bool
	// durable says that the commit must be on disk before anybody is answered.
	durable bool
	// batchBudgets are those of the batches of the group's runs; nil for no limit.
	batchBudgets map[uuid.UUID]*money.Pico
	// actions are the decisions of people that were carried out.
	actions []action
	// tallies are the differences to the counts of batches and tenants.
	tallies tallies
	writes  writes
	notices Notices
}

// commitEvents carries out a group of events in one transaction.
func (s *Store) commitEvents(ctx context.Context, kind int, events []*Event) error {
	var g *group
	err := pg.InTx(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		if g != nil {
			g.abandon()
		}
		g = s.newGroup(tx, kind == kindDurable)
		err := g.carryOut(ctx, events)
		failpoint.Hit("orchestrator.group.commit", kindName(kind))
		return err
	})
	if err != nil {
		if g != nil {
			g.abandon()
		}
		return err
	}
	failpoint.Hit("orchestrator.group.committed", kindName(kind))
	g.announce()
	return nil
}

// announce tells, after the commit, those who wait for news.
func (g *group) announce() {
	for class, n := range g.freed {
		g.store.window.Return(class, n)
	}
	for class := range g.waiting {
		g.store.window.Wait(class)
	}
	for class := range g.caps.lined {
		g.store.window.Line(class)
	}
	if g.caps.freed { // caps are of both classes together
		for _, class := range machine.AllClasses() {
			g.store.window.Free(class)
		}
	}
	g.store.publish(g.notices)
}

func (s *Store) newGroup(tx pgx.Tx, durable bool) *group {
	p := pg.NewPipe(tx)
	return &group{
		store: s, pipe: p, query: db.New(p), durable: durable,
		runs: map[uuid.UUID]*run{}, admitted: map[machine.Class]int{}, waiting: map[machine.Class]bool{},
		freed: map[machine.Class]int{},
		caps:  caps{rooms: map[string]*allowance{}, holders: map[seat]int{}, lined: map[machine.Class]bool{}},
	}
}

// tell takes over PostgreSQL's time.
func (g *group) tell(now time.Time) {
	if g.now != now {
		g.now, g.read = now, g.store.clock.Now()
	}
}

// abandon gives back what a transaction took outside the database that was not committed.
func (g *group) abandon() {
	for class, n := range g.admitted {
		g.store.window.Unused(class, n)
	}
}

func (g *group) carryOut(ctx context.Context, events []*Event) error {
	g.single = len(events) == 1
	for _, e := range events {
		e.reset()
	}
	if err := g.load(ctx, events); err != nil {
		return err
	}
	if g.conflict {
		return errConflict
	}
	if err := g.prepareDispatch(ctx, events); err != nil {
		return fmt.Errorf("decide about caps: %w", err)
	}
	for _, e := range events {
		if e.refused == nil {
			g.apply(e)
		}
	}
	if g.conflict {
		return errConflict
	}
	return g.finish(ctx)
}

// apply carries out one event in memory.
func (g *group) apply(e *Event) {
	r := g.runs[e.RunID]
	r.learn(e.Spend)
	if e.Make == nil {
		e.Answer = machine.Applied
		return
	}
	if e.Decision != nil {
		g.decide(r, e)
		return
	}
	g.carryOutOn(r, e)
}

// carryOutOn carries out an event on its run.
func (g *group) carryOutOn(r *run, e *Event) {
	ref := r.ref(e.Ref)
	g.before, _ = r.rows.Get(ref.Key)
	ev := r.withMoney(e.Make(ref, g.now))
	claimed, isClaim := ev.(machine.Claimed)
	if isClaim && g.oversize[e] {
		ev = g.inputTooLarge(r, claimed)
	}
	if e.Dispatch && g.before.Status == machine.StepReady && !g.admit(r) {
		e.refused = ErrCapped
		return
	}
	outcome, err := g.transition(r, ev, e)
	switch {
	case isClaim && g.oversize[e]:
		e.Answer = machine.Gone
		return
	case err != nil:
		g.refuse(e, err)
		return
	}
	e.Answer = outcome.Answer
	switch {
	case e.Answer == machine.Granted:
		g.grant(r, ref, e)
	case e.Answer == machine.Applied && e.Report != nil:
		g.keepItems(r, ref.Step, e.Report.Items)
	}
	if inFlight(g.before) && !inFlight(r.row(ref.Key)) {
		g.freed[g.before.Class]++
		if g.cappedRun(r) {
			g.caps.freed = true
		}
	}
}

// refuse notes why an event has no effect. When rows are missing that an event before it in the group has made necessary,
// the group is split: alone, the event asks for them.
func (g *group) refuse(e *Event, err error) {
	if _, missing := errors.AsType[*machine.MissingError](err); missing && !g.single {
		g.conflict = true
	}
	e.refused = err
}

// inFlight reports whether the row counts against the window of its class.
func inFlight(l machine.Live) bool {
	return l.Status == machine.StepQueued || l.Status == machine.StepRunning
}

// grant tells the holder of a claim what it must know.
func (g *group) grant(r *run, ref machine.Ref, e *Event) {
	e.Grant = &Grant{
		Tenant: r.tenant, Pipeline: r.pipeline, Class: r.head.Class, EntityID: r.entityID, Labels: r.labels,
		Budget: r.budget, Batch: r.batch, BatchBudget: g.batchBudgets[r.batch], SpendEpoch: r.head.SpendEpoch, DeadlineIn: r.head.DeadlineAt.Sub(g.now),
		Row: r.row(ref.Key), Bytes: r.ledger.bytes,
	}
}

// transition applies an event of the machine to a run and notes what follows. By is the event that it comes from; nil when
// it is the store's own.
func (g *group) transition(r *run, ev machine.Event, by *Event) (machine.Outcome, error) {
	outcome, err := machine.Apply(r.plan, &r.head, r.rows, ev, g.now, g.store.random)
	if err != nil {
		return outcome, err
	}
	for _, effect := range outcome.Effects {
		g.effect(r, effect, by)
	}
	return outcome, nil
}

// finish dispatches what there is room for, and writes what has changed.
func (g *group) finish(ctx context.Context) error {
	if err := g.dispatch(ctx); err != nil {
		return err
	}
	for _, r := range g.order {
		if err := g.save(r); err != nil {
			return err
		}
	}
	if err := g.chain(ctx); err != nil {
		return err
	}
	if !g.durable {
		if err := g.query.CommitAsync(ctx); err != nil {
			return err
		}
	}
	if err := g.write(ctx); err != nil {
		return err
	}
	if err := g.pipe.Flush(ctx); err != nil {
		return fmt.Errorf("write group: %w", err)
	}
	return nil
}

// readyStep is a step that has become READY.
type readyStep struct {
	run   *run
	ref   machine.Ref
	class machine.Class
}

// dispatch makes QUEUED at once what has become READY, as far as nothing waits and the window has room.
func (g *group) dispatch(ctx context.Context) error {
	left, err := g.admitReady(ctx)
	if err != nil {
		return fmt.Errorf("decide about caps: %w", err)
	}
	room := map[machine.Class]int{}
	for i, step := range g.ready {
		if !left[i] {
			room[step.class]++
		}
	}
	for class, n := range room {
		room[class] = g.store.window.Admit(class, n)
		g.admitted[class] += room[class]
	}
	for i, step := range g.ready {
		if left[i] || !step.waits() {
			continue
		}
		if room[step.class] == 0 {
			g.waiting[step.class] = true
			continue
		}
		room[step.class]--
		if _, err := g.transition(step.run, machine.Dispatched{Ref: step.ref}, nil); err != nil {
			return fmt.Errorf("dispatch: %w", err)
		}
	}
	for class, n := range room {
		g.store.window.Unused(class, n)
		g.admitted[class] -= n
	}
	return nil
}

// waits reports whether the step is still READY, and may be dispatched, after all events of the group.
func (s readyStep) waits() bool {
	row, live := s.run.rows.Get(s.ref.Key)
	return live && row.Status == machine.StepReady && !s.run.head.State.Held
}
