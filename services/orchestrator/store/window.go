package store

import (
	"sync/atomic"

	"pawl.internal/services/orchestrator/machine"
)

// Window says how many more steps of each class may be dispatched. Groups take room for steps that become READY, and give it
// back for steps that leave, so that a system in which nothing waits needs no dispatcher in between; the dispatcher puts
// right what drifts, since other replicas fill the same streams. It is safe for concurrent use.
type Window struct {
	interactive, batch lane
	wake               chan struct{}
}

// lane is the window of one class.
type lane struct {
	// room is negative while more is dispatched than should be.
	room atomic.Int64
	left atomic.Int64 // steps that have left, ever
	// came counts the occasions on which steps came to wait; drained is the count at the last moment at which all that had
	// come until then were dispatched. Some wait while the two differ.
	came, drained atomic.Int64
	// closed keeps steps that become READY from going past those that wait.
	closed atomic.Bool
	// lined says that the dispatcher is to look at steps that caps concern; behind that caps held some back when it did last.
	// Nobody else is kept back for them.
	lined, behind atomic.Bool
}

// NewWindow returns a window without room, in which steps wait: the dispatcher opens it.
func NewWindow() *Window {
	w := &Window{wake: make(chan struct{}, 1)}
	for _, class := range machine.AllClasses() {
		w.Wait(class)
	}
	return w
}

// Room returns for how many more steps there is room; it may be negative.
func (w *Window) Room(class machine.Class) int { return int(w.lane(class).room.Load()) }

// Adjust widens or, by a negative number, narrows the window.
func (w *Window) Adjust(class machine.Class, by int) { w.lane(class).room.Add(int64(by)) }

// Admit takes room for up to n steps that become READY and returns for how many there was. None goes past others that wait.
func (w *Window) Admit(class machine.Class, n int) int {
	l := w.lane(class)
	for {
		room := l.room.Load()
		if room <= 0 || l.closed.Load() {
			return 0
		}
		taken := min(int64(n), room)
		if l.room.CompareAndSwap(room, room-taken) {
			return int(taken)
		}
	}
}

// Return gives back the room of n steps that have left the streams, and wakes the dispatcher when some wait for it.
func (w *Window) Return(class machine.Class, n int) {
	w.lane(class).left.Add(int64(n))
	w.Unused(class, n)
}

// Unused gives back room that was taken and not used.
func (w *Window) Unused(class machine.Class, n int) {
	if n <= 0 {
		return
	}
	l := w.lane(class)
	l.room.Add(int64(n))
	if _, waiting := w.Waiting(class); waiting || l.lined.Load() {
		w.signal()
	}
}

// Left returns how many steps of the class have left the streams since the process began.
func (w *Window) Left(class machine.Class) int64 { return w.lane(class).left.Load() }

// Wait says that steps of the class wait, READY in the database, and wakes the dispatcher. Whoever made them so calls it
// after the commit: the dispatcher must be able to see them.
func (w *Window) Wait(class machine.Class) {
	l := w.lane(class)
	l.came.Add(1)
	l.closed.Store(true)
	w.signal()
}

// Line says that a step of the class waits that caps concern, and wakes the dispatcher. Nobody else is kept back for it.
func (w *Window) Line(class machine.Class) {
	l := w.lane(class)
	l.behind.Store(true)
	l.lined.Store(true)
	w.signal()
}

// Free says that a cap has room again, and wakes the dispatcher if steps wait for one.
func (w *Window) Free(class machine.Class) {
	if w.lane(class).behind.Load() {
		w.Line(class)
	}
}

// Lined reports whether steps that caps concern are to be looked at.
func (w *Window) Lined(class machine.Class) bool { return w.lane(class).lined.Load() }

// Look says that the dispatcher looks at the steps of the class, and Looked what it has found: whether caps hold some back.
func (w *Window) Look(class machine.Class) { w.lane(class).lined.Store(false) }

// Looked ends what Look began.
func (w *Window) Looked(class machine.Class, capped bool) {
	if l := w.lane(class); capped || !l.lined.Load() {
		l.behind.Store(capped)
	}
}

// Waiting reports whether steps of the class wait. The mark is for Drained.
func (w *Window) Waiting(class machine.Class) (mark int64, waiting bool) {
	l := w.lane(class)
	mark = l.came.Load()
	return mark, mark != l.drained.Load()
}

// Drained says that all steps are dispatched that had come to wait when Waiting gave the mark. Those that have come since
// still wait, but are no reason to let others wait too: else, as long as some come all the time, all would.
func (w *Window) Drained(class machine.Class, mark int64) {
	l := w.lane(class)
	l.drained.Store(mark)
	l.closed.Store(false)
}

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
