package sim

import (
	"time"

	"pawl.internal/services/orchestrator/machine"
)

// window says how many more steps may be dispatched (orchestrator/store/window.go).
type window struct {
	room          int
	came, drained int
	closed        bool
}

func newWindow() *window {
	w := &window{}
	w.wait()
	return w
}

// admit takes room for up to n steps; none goes past others that wait.
func (w *window) admit(n int) int {
	if w.room <= 0 || w.closed {
		return 0
	}
	n = min(n, w.room)
	w.room -= n
	return n
}

func (w *window) giveBack(n int) { w.room += n }
func (w *window) unused(n int)   { w.room += n }

// wait says that steps wait, READY in the database.
func (w *window) wait() {
	w.came++
	w.closed = true
}

func (w *window) waiting() bool { return w.came != w.drained }

const (
	measureEvery  = time.Second
	dispatchAgain = time.Second
	dispatchPause = 10 * time.Millisecond
	// leastWindow is small here, so that steps wait for room (16 in the orchestrator).
	leastWindow = 3
)

// dispatcher moves READY steps to the stream while the window has room (dispatch.go).
type dispatcher struct {
	running  bool
	measured time.Duration
	size     int
	timer    int
}

// dispatchLoop begins a round, unless one is under way.
func (o *orchestrator) dispatchLoop() {
	if !o.dispatcher.running {
		o.dispatcher.running = true
		o.after(dispatchPause, o.dispatchRound)
	}
}

// dispatchRound fills the window, and goes on while there is more.
func (o *orchestrator) dispatchRound() {
	d := &o.dispatcher
	if !o.s.pg.reads(o.process) {
		o.after(dispatchAgain, o.dispatchRound)
		return
	}
	if o.clock() >= d.measured {
		d.measured = o.clock() + measureEvery
		n, waiting := o.s.core.dispatched()
		d.size = max(leastWindow, 2*o.s.core.slots())
		o.window.room = d.size - n
		if waiting {
			o.window.wait()
		}
	}
	o.fill(func(more bool) {
		if more {
			o.after(dispatchPause, o.dispatchRound)
			return
		}
		d.running = false
		d.timer++
		timer := d.timer
		o.after(max(d.measured-o.clock(), 0), func() {
			if timer == d.timer {
				o.dispatchLoop()
			}
		})
	})
}

// fill dispatches steps that wait, as far as there is room, and reports whether there is room for more.
func (o *orchestrator) fill(then func(more bool)) {
	room := o.window.room
	if room <= 0 || !o.window.waiting() || !o.s.guard(GuardDispatcher) {
		then(false)
		return
	}
	mark := o.window.came
	next, all := o.s.core.ready(room)
	if all {
		o.window.drained, o.window.closed = mark, false
	}
	if len(next) == 0 {
		then(false)
		return
	}
	o.window.room -= len(next)
	events := make([]*coreEvent, len(next))
	for i, ref := range next {
		events[i] = &coreEvent{stepRef: ref, make: func(time.Time) machine.Event { return machine.Dispatched{Ref: ref.Ref} }}
	}
	o.submit(events, func() {
		dispatched := 0
		for _, e := range events {
			if e.err == nil {
				dispatched++
			}
		}
		o.window.unused(len(next) - dispatched)
		if away(events) != nil {
			o.window.wait()
		}
		then(dispatched > 0 && o.window.waiting() && o.window.room > 0)
	})
}
