package steprunner

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/apijson"
	"pawl.internal/services/steprunner/step"
)

// errLeaving ends what the grace period of a shutdown did not suffice for.
var errLeaving = errors.New("the runner is shutting down")

// stopError ends an attempt that the orchestrator wants stopped. Its outcome would be refused, so there is none.
type stopError struct{ reason systemv1.StopReason }

func (e *stopError) Error() string { return "stopped by the orchestrator: " + apijson.WordOf(e.reason) }

// hold is a claim that this runner has: from the answer GRANTED until the outcome is stored or the step is dropped.
type hold struct {
	*claim

	lane  *lane
	began time.Time
	// stopwatch is nil until the step's timeouts are known.
	stopwatch atomic.Pointer[step.Stopwatch]
	cancel    context.CancelCauseFunc
	// ended is closed when the attempt's goroutine has ended; leave takes that from the runner's work, once.
	ended chan struct{}
	leave func()
	// stopped says that the orchestrator has had the attempt stopped. It is guarded by the table's mu.
	stopped bool
}

func (h *hold) assignment() *systemv1.Assignment { return h.answer.GetAssignment() }

// proto describes the hold to the orchestrator.
func (h *hold) proto() *systemv1.Hold {
	described := &systemv1.Hold{Step: h.ref, Fence: h.fence[:], ClaimNo: h.assignment().GetClaimNo()}
	watch := h.stopwatch.Load()
	if watch == nil {
		return described
	}
	described.PermitWait = durationpb.New(watch.Waited())
	if limit, waited, awaits := watch.Awaited(); awaits {
		described.AwaitedPermit = &systemv1.AwaitedPermit{Limit: limit, Waited: durationpb.New(waited)}
	}
	return described
}

// holds is the table of all holds of the runner, of both lanes. It is safe for concurrent use.
type holds struct {
	// onStop is told of every attempt that the orchestrator has stopped, once; set before the table is used.
	onStop func(*hold)

	mu      sync.Mutex
	byFence map[uuid.UUID]*hold // guarded by mu
}

func newHolds() *holds { return &holds{byFence: map[uuid.UUID]*hold{}} }

func (t *holds) add(h *hold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byFence[h.fence] = h
}

// remove reports whether the hold was in the table.
func (t *holds) remove(h *hold) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	held := t.byFence[h.fence] == h
	if held {
		delete(t.byFence, h.fence)
	}
	return held
}

func (t *holds) all() []*hold {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.byFence))
}

// stop ends the attempt under the fence, and reports whether there is one.
func (t *holds) stop(fence uuid.UUID, cause error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, held := t.byFence[fence]
	if !held {
		return false
	}
	h.cancel(cause)
	if !h.stopped {
		h.stopped = true
		t.onStop(h)
	}
	return true
}

// describe lists holds for the orchestrator.
func describe(list []*hold) []*systemv1.Hold {
	described := make([]*systemv1.Hold, len(list))
	for i, h := range list {
		described[i] = h.proto()
	}
	return described
}
