package orchestrator

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

const (
	// dispatchEvery is how often the streams' windows are set anew when nothing wakes the dispatcher.
	dispatchEvery = time.Second
	// dispatchPause is the least time between two rounds: what becomes free meanwhile is filled together.
	dispatchPause = 5 * time.Millisecond
	// leastWindow is the smallest window of a class.
	leastWindow = 16
	// windowTime is the time for whose throughput a window has room.
	windowTime = 100 * time.Millisecond
)

// dispatcher keeps the streams short: it moves READY steps to them only while their window has room, so that the backlog
// lives in PostgreSQL, and every tenant gets its turn. As long as nothing waits it only sets the windows, and groups fill
// them themselves.
type dispatcher struct {
	store   *store.Store
	clock   clock.Clock
	log     *slog.Logger
	metrics *metrics
	// turn is the tenant that was served last, by class.
	turn map[machine.Class]string
	rate map[machine.Class]*rate
}

// run dispatches until ctx ends.
func (d *dispatcher) run(ctx context.Context) error {
	for {
		if err := d.round(ctx); err != nil && ctx.Err() == nil {
			d.log.WarnContext(ctx, "dispatch failed, and is repeated", "error", err)
		}
		if err := d.wait(ctx); err != nil {
			return err
		}
	}
}

// wait returns when there may be something to dispatch.
func (d *dispatcher) wait(ctx context.Context) error {
	if err := d.clock.Sleep(ctx, dispatchPause); err != nil {
		return err
	}
	timer := d.clock.NewTimer(dispatchEvery)
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

// round fills the windows of both classes.
func (d *dispatcher) round(ctx context.Context) error {
	runners, err := d.store.Runners(ctx)
	if err != nil {
		return err
	}
	dispatched, err := d.store.Dispatched(ctx)
	if err != nil {
		return err
	}
	for _, class := range machine.AllClasses() {
		d.metrics.dispatched(class, dispatched[class])
		room := d.window(class, runners) - dispatched[class]
		if err := d.fill(ctx, class, room); err != nil {
			return err
		}
	}
	return nil
}

// window is how many steps of the class may be queued or running.
func (d *dispatcher) window(class machine.Class, runners []store.Runner) int {
	slots := 0
	for _, r := range runners {
		switch {
		case !r.Alive:
		case class == machine.Batch:
			slots += r.BatchSlots
		default:
			slots += r.InteractiveSlots
		}
	}
	perSecond := d.rate[class].perSecond(d.clock.Now(), d.store.Window().Left(class))
	return max(leastWindow, 2*slots, int(perSecond*windowTime.Seconds()))
}

// fill dispatches READY steps while there is room, and then tells the window what is left.
func (d *dispatcher) fill(ctx context.Context, class machine.Class, room int) error {
	// Without room one step is looked for all the same, to know whether any waits.
	ready, err := d.store.ReadySteps(ctx, class, max(room, 1))
	if err != nil {
		return err
	}
	chosen, more := d.choose(class, ready, room)
	d.store.Window().Set(class, room-len(chosen), more)
	if len(chosen) == 0 {
		return nil
	}
	events := make([]*store.Event, len(chosen))
	for i, ref := range chosen {
		events[i] = &store.Event{Ref: ref, Make: func(r machine.Ref, _ time.Time) machine.Event {
			return machine.Dispatched{Ref: r}
		}}
	}
	return away(d.store.Submit(ctx, events...))
}

// choose takes steps from the tenants in turn, beginning behind the one that was served last, and reports whether it had to
// leave any. READY steps of paused runs are left too; the next rounds look at them again.
func (d *dispatcher) choose(class machine.Class, ready map[string][]store.Ref, room int) (chosen []store.Ref, more bool) {
	tenants := slices.Sorted(maps.Keys(ready))
	first, _ := slices.BinarySearch(tenants, d.turn[class]+"\x00")
	waiting := 0
	for _, refs := range ready {
		waiting += len(refs)
	}
	for round := 0; len(chosen) < min(room, waiting); round++ {
		for i := range tenants {
			tenant := tenants[(first+i)%len(tenants)]
			if round < len(ready[tenant]) && len(chosen) < room {
				chosen = append(chosen, ready[tenant][round])
				d.turn[class] = tenant
			}
		}
	}
	// A tenant of which as many were found as were asked for may have more.
	for _, refs := range ready {
		more = more || len(refs) >= max(room, 1)
	}
	return chosen, more || waiting > len(chosen)
}

// rate measures how many steps leave a class in a second.
type rate struct {
	at   time.Time
	left int64
	last float64
}

// perSecond takes the count so far and returns the rate of the last second or so.
func (r *rate) perSecond(now time.Time, left int64) float64 {
	if passed := now.Sub(r.at); passed >= dispatchEvery {
		if !r.at.IsZero() {
			r.last = float64(left-r.left) / passed.Seconds()
		}
		r.at, r.left = now, left
	}
	return r.last
}
