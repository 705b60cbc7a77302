package orchestrator

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

const (
	// measureEvery is how often the load is measured and the windows are put right, and dispatchAgain the wait after a
	// failure.
	measureEvery  = time.Second
	dispatchAgain = time.Second
	// dispatchPause is the least time between two rounds: what becomes free meanwhile is filled together.
	dispatchPause = 10 * time.Millisecond
	// lookEvery is how long steps that were read ahead go before those that have become READY since.
	lookEvery = 20 * time.Millisecond
	// What takes long, as a question does beside an old snapshot, is done less often: it may take such a part of the time.
	measureShare, lookShare = 20, 5

	// leastWindow is the smallest window of a class.
	leastWindow = 16
	// windowTime is the time for whose throughput a window has room.
	windowTime = 100 * time.Millisecond
)

// dispatcher keeps the streams short: it moves READY steps to them only while their window has room, so that the backlog
// lives in PostgreSQL, and every tenant gets its share. As long as nothing waits it only measures the load once a second:
// groups fill the windows themselves.
type dispatcher struct {
	store   *store.Store
	clock   clock.Clock
	log     *slog.Logger
	metrics *metrics

	queues   []*queue
	measured time.Time // when the load is to be measured again
}

// queue is what the dispatcher knows of a class.
type queue struct {
	class machine.Class
	// size is the window.
	size int
	// ahead are READY steps that were read ahead, by tenant, in turn.
	ahead []store.Waiting
	// all says that no other tenants waited when they were read, and capped that caps held steps back; mark is for
	// Window.Drained.
	all, capped bool
	mark        int64
	// stale is when they are to be read anew, and pause how long they had to last.
	stale time.Time
	pause time.Duration
	turns turns
	lines store.Lines
	rate  rate
}

func newDispatcher(s *store.Store, c clock.Clock, log *slog.Logger, m *metrics) *dispatcher {
	d := &dispatcher{store: s, clock: c, log: log, metrics: m}
	for _, class := range machine.AllClasses() {
		d.queues = append(d.queues, &queue{class: class})
	}
	return d
}

// run dispatches until ctx ends.
func (d *dispatcher) run(ctx context.Context) error {
	for {
		more, err := d.round(ctx)
		pause := dispatchPause
		if err != nil && ctx.Err() == nil {
			d.log.WarnContext(ctx, "dispatch failed, and is repeated", "error", err)
			pause = dispatchAgain
		}
		if err := d.clock.Sleep(ctx, pause); err != nil {
			return err
		}
		if !more {
			if err := d.wait(ctx); err != nil {
				return err
			}
		}
	}
}

// wait returns when there may be something to dispatch, or the load is to be measured.
func (d *dispatcher) wait(ctx context.Context) error {
	timer := d.clock.NewTimer(d.measured.Sub(d.clock.Now()))
	defer timer.Stop()
	select {
	case <-d.store.Window().Wake():
		return nil
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// round fills the windows of all classes, and reports whether there is more that could be dispatched at once.
func (d *dispatcher) round(ctx context.Context) (more bool, err error) {
	if err := d.measure(ctx); err != nil {
		return false, err
	}
	for _, q := range d.queues {
		again, err := d.fill(ctx, q)
		if err != nil {
			return false, err
		}
		more = more || again
	}
	return more, nil
}

// measure sets the sizes of the windows and puts their room right, if it is time.
func (d *dispatcher) measure(ctx context.Context) error {
	began := d.clock.Now()
	if began.Before(d.measured) {
		return nil
	}
	window := d.store.Window()
	// What groups take and give back while the load is read is right already: the room is adjusted by what was wrong before.
	before := make([]int, len(d.queues))
	for i, q := range d.queues {
		before[i] = window.Room(q.class)
	}
	if err := d.store.LoadPolicies(ctx); err != nil {
		return err
	}
	load, err := d.store.Load(ctx)
	if err != nil {
		return err
	}
	for i, q := range d.queues {
		now := load[q.class]
		d.metrics.dispatched(q.class, now.Dispatched)
		q.size = windowSize(now.Slots, q.rate.perSecond(began, window.Left(q.class)))
		// A step that left meanwhile may be missing in the load and have given its room back too: its room counts once.
		window.Adjust(q.class, q.size-now.Dispatched-max(before[i], window.Room(q.class)))
		d.remind(q, now)
	}
	d.measured = began.Add(max(measureEvery, measureShare*d.clock.Now().Sub(began)))
	return nil
}

// remind has the steps looked at that wait, since another replica may have left them, or made room under their caps. Where
// caps hold some back, others are not kept waiting for that look.
func (d *dispatcher) remind(q *queue, now store.Load) {
	switch {
	case now.Waiting && !q.capped:
		d.store.Window().Wait(q.class)
	case now.Waiting || now.Lined:
		d.store.Window().Line(q.class)
	}
}

// windowSize is how many steps of a class may be queued or running.
func windowSize(slots int, perSecond float64) int {
	return max(leastWindow, 2*slots, int(perSecond*windowTime.Seconds()))
}

// fill dispatches steps of a class that wait, as far as there is room, and reports whether there is room for more.
func (d *dispatcher) fill(ctx context.Context, q *queue) (more bool, err error) {
	window := d.store.Window()
	room := window.Room(q.class)
	if room <= 0 || !d.waits(q.class) {
		return false, nil
	}
	if err := d.look(ctx, q); err != nil {
		return false, err
	}
	next, ahead, dry := q.turns.deal(q.ahead, room)
	q.ahead = ahead
	switch {
	case dry:
		q.stale = time.Time{}
		window.Line(q.class)
	case len(ahead) == 0 && q.all:
		window.Drained(q.class, q.mark)
	case len(ahead) > 0:
		window.Line(q.class)
	}
	if len(next) == 0 {
		return false, nil
	}
	dispatched, err := d.dispatch(ctx, q, next)
	return d.waits(q.class) && dispatched > 0 && window.Room(q.class) > 0, err
}

// waits reports whether steps of the class wait, or such as wait for caps may be able to go.
func (d *dispatcher) waits(class machine.Class) bool {
	_, waiting := d.store.Window().Waiting(class)
	return waiting || d.store.Window().Lined(class)
}

// look reads READY steps ahead, unless there are some that are fresh enough: as many as the class can take until the next
// look, should that be as far away as this one was.
func (d *dispatcher) look(ctx context.Context, q *queue) error {
	began := d.clock.Now()
	if len(q.ahead) > 0 && began.Before(q.stale) {
		return nil
	}
	window := d.store.Window()
	mark, _ := window.Waiting(q.class)
	window.Look(q.class)
	look, err := d.store.Ready(ctx, q.class, q.turns.done, readAhead(q.size, q.pause), &q.lines)
	if err != nil {
		window.Line(q.class)
		return err
	}
	window.Looked(q.class, look.Capped)
	q.ahead, q.all, q.capped, q.mark = look.Tenants, look.All, look.Capped, mark
	if look.All {
		q.turns.keep(look.Tenants)
	}
	q.pause = lookPause(d.clock.Now().Sub(began))
	q.stale = began.Add(q.pause)
	return nil
}

// lookPause is how long the steps of a look that took so long have to last.
func lookPause(took time.Duration) time.Duration { return max(lookEvery, lookShare*took) }

// readAhead is how many steps last for so long: a window holds those of windowTime.
func readAhead(window int, pause time.Duration) int { return window * (1 + int(pause/windowTime)) }

// dispatch takes room for the steps and has them dispatched, and returns how many were. The others have been dispatched by
// another replica, or do not wait any more: what was read ahead is out of date.
func (d *dispatcher) dispatch(ctx context.Context, q *queue, steps []store.Ref) (int, error) {
	window := d.store.Window()
	window.Adjust(q.class, -len(steps))
	events := make([]*store.Event, len(steps))
	for i, step := range steps {
		events[i] = &store.Event{Ref: step, Dispatch: true, Make: func(r machine.Ref, _ time.Time) machine.Event {
			return machine.Dispatched{Ref: r}
		}}
	}
	failpoint.Hit("orchestrator.dispatch.read")
	errs := d.store.Submit(ctx, events...)
	failpoint.Hit("orchestrator.dispatch.committed")
	dispatched := 0
	for _, err := range errs {
		switch {
		case err == nil:
			dispatched++
		case errors.Is(err, store.ErrCapped):
			window.Line(q.class)
		}
	}
	if dispatched < len(steps) {
		window.Unused(q.class, len(steps)-dispatched)
		q.ahead = nil
	}
	return dispatched, away(errs)
}

// rate measures how many steps leave a class in a second.
type rate struct {
	at   time.Time
	left int64
	last float64
}

// perSecond takes the count so far and returns the rate since it was taken before.
func (r *rate) perSecond(now time.Time, left int64) float64 {
	if passed := now.Sub(r.at); passed > 0 {
		if !r.at.IsZero() {
			r.last = float64(left-r.left) / passed.Seconds()
		}
		r.at, r.left = now, left
	}
	return r.last
}
