package steprunner

import (
	"context"
	"errors"
	"sync"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/steprunner/step"
)

// errLeaving ends the attempts that the grace period of a shutdown did not suffice for.
var errLeaving = errors.New("the runner is shutting down")

// stopError ends an attempt that the orchestrator wants stopped. Its outcome would be refused, so there is none.
type stopError struct{ reason systemv1.StopReason }

func (e *stopError) Error() string { return "stopped by the orchestrator: " + stopName(e.reason) }

// hold is a claim that this runner has: from the answer GRANTED until the outcome is stored or the step is dropped.
type hold struct {
	ref        *systemv1.StepRef
	fence      uuid.UUID
	assignment *systemv1.Assignment
	stopwatch  *step.Stopwatch
	cancel     context.CancelCauseFunc
}

// proto describes the hold to the orchestrator.
func (h *hold) proto() *systemv1.Hold {
	return &systemv1.Hold{
		Step:       h.ref,
		Fence:      h.fence[:],
		ClaimNo:    h.assignment.GetClaimNo(),
		PermitWait: durationpb.New(h.stopwatch.Waited()),
	}
}

// holds is the table of all holds of the runner, of both lanes. It is safe for concurrent use.
type holds struct {
	mu      sync.Mutex
	byFence map[uuid.UUID]*hold // guarded by mu
}

func newHolds() *holds { return &holds{byFence: map[uuid.UUID]*hold{}} }

func (t *holds) add(h *hold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byFence[h.fence] = h
}

func (t *holds) remove(h *hold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byFence, h.fence)
}

// list describes all holds.
func (t *holds) list() []*systemv1.Hold {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*systemv1.Hold, 0, len(t.byFence))
	for _, h := range t.byFence {
		list = append(list, h.proto())
	}
	return list
}

// stop ends the attempt under the fence, if there still is one.
func (t *holds) stop(fence uuid.UUID, cause error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, held := t.byFence[fence]
	if held {
		h.cancel(cause)
	}
	return held
}

// stopAll ends all attempts.
func (t *holds) stopAll(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.byFence {
		h.cancel(cause)
	}
}
