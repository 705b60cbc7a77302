package store

import (
	"sync/atomic"

	"pawl.internal/services/orchestrator/machine"
)

// Window says how many more steps of each class may be in the streams. The dispatcher sets it from what it counts; groups
// take room for steps that become READY, and give it back for steps that leave, so that a system in which nothing waits
// needs no dispatcher in between. Counts of several replicas drift apart a little and are put right by the next Set. It is
// safe for concurrent use.
type Window struct {
	interactive, batch lane
	wake               chan struct{}
}

// lane is the window of one class.
type lane struct {
	// room is negative while more is in the stream than should be.
	room    atomic.Int64
	left    atomic.Int64 // steps that have left, ever
	waiting atomic.Bool
}

// NewWindow returns a window without room: the dispatcher opens it.
func NewWindow() *Window {
	w := &Window{wake: make(chan struct{}, 1)}
	w.interactive.waiting.Store(true)
	w.batch.waiting.Store(true)
	return w
}

// Set says how much room there is, and whether steps of the class wait READY in the database: while some do, none that
// become READY go past them.
func (w *Window) Set(class machine.Class, room int, waiting bool) {
	l := w.lane(class)
	l.room.Store(int64(room))
	l.waiting.Store(waiting)
}

// Admit takes room for up to n steps and returns for how many there was; for the others the dispatcher is woken.
func (w *Window) Admit(class machine.Class, n int) int {
	l := w.lane(class)
	admitted := l.take(int64(n))
	if admitted < int64(n) {
		l.waiting.Store(true)
		w.signal()
	}
	return int(admitted)
}

// Return gives back the room of n steps that have left the stream, and wakes the dispatcher when some wait for it.
func (w *Window) Return(class machine.Class, n int) {
	if n > 0 {
		w.lane(class).left.Add(int64(n))
		w.Unused(class, n)
	}
}

// Unused gives back room that was admitted and not used.
func (w *Window) Unused(class machine.Class, n int) {
	if n <= 0 {
		return
	}
	l := w.lane(class)
	l.room.Add(int64(n))
	if l.waiting.Load() {
		w.signal()
	}
}

// Left returns how many steps of the class have given back their room since the process began.
func (w *Window) Left(class machine.Class) int64 { return w.lane(class).left.Load() }

// Wake delivers when the dispatcher has something to do: steps wait, and there may be room.
func (w *Window) Wake() <-chan struct{} { return w.wake }

func (w *Window) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Window) lane(class machine.Class) *lane {
	if class == machine.Batch {
		return &w.batch
	}
	return &w.interactive
}

func (l *lane) take(n int64) int64 {
	for {
		room := l.room.Load()
		if room <= 0 || l.waiting.Load() {
			return 0
		}
		taken := min(n, room)
		if l.room.CompareAndSwap(room, room-taken) {
			return taken
		}
	}
}
