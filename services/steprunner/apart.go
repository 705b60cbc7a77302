package steprunner

import (
	"sync"
	"time"

	"pawl.internal/services/steprunner/step"
)

// turnAgain is how long a step waits that finds another one being executed apart.
const turnAgain = time.Second

// apart lets a runner execute one step at a time of those that have lost their workers so often that one more loss ends them.
// When a worker dies, nobody knows which of its steps has killed it, and all of them are to blame: alone, the guilty one
// takes no other along.
type apart struct {
	mu   sync.Mutex
	hold *hold // guarded by mu; the one that is executed; nil if there is none
}

// enter reports whether the step may be executed now. A step that is not on its last chance always may.
func (a *apart) enter(h *hold) bool {
	if !h.assignment().GetLastChance() {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hold == nil {
		a.hold = h
	}
	return a.hold == h
}

// leave lets the next step in, if it was this one that was executed.
func (a *apart) leave(h *hold) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hold == h {
		a.hold = nil
	}
}

// notItsTurn puts a step off, without slot and lease: a death of this worker does not concern it meanwhile.
func notItsTurn() *step.Parked {
	return &step.Parked{
		Until: turnAgain, Reason: step.ReasonWorkerLost,
		Message: "it has lost its workers before, and is executed apart from other such steps",
	}
}
