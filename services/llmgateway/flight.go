package llmgateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/llmgateway/store"
)

// Why a flight was ended from outside.
var (
	errCancelled = errors.New("calls were cancelled")
	errStopping  = errors.New("gateway is stopping")
)

// flight is a question on its way to an answer. It belongs to no caller: whoever asks the same question follows it, and it
// goes on when all of them have gone.
type flight struct {
	ask *ask
	// ctx ends when the flight is to be ended from outside; its cause says why.
	ctx context.Context //nolint:containedctx // the flight outlives every call that could carry it
	end context.CancelCauseFunc
	// speech is what the model has said until now, where somebody listens.
	speech *speech

	done chan struct{} // closed when outcome is set

	outcome outcome // set before done is closed

	mu    sync.Mutex
	since time.Time // guarded by mu; PostgreSQL's clock when it began, zero before that is known
	sent  bool      // guarded by mu; a request is at a provider, or may be
	// progress is how far it is, and changed is closed and replaced when that changes.
	progress progress      // guarded by mu
	changed  chan struct{} // guarded by mu
}

// progress is how far a flight is, as its callers are told.
type progress struct {
	// limit is the one whose permit is awaited; empty if none is.
	limit string
	// grants counts the permits that they are told of, and permitWait is how long all were awaited.
	grants     int
	permitWait time.Duration
}

func newFlight(ctx context.Context, a *ask) *flight {
	f := &flight{ask: a, speech: newSpeech(), done: make(chan struct{}), changed: make(chan struct{})}
	f.ctx, f.end = context.WithCancelCause(context.WithoutCancel(ctx))
	return f
}

// markWaiting tells the followers that a permit of a limit is awaited.
func (f *flight) markWaiting(limit string) {
	f.advance(func(p *progress) { p.limit = limit })
}

// markGranted tells the followers that a permit is there: the first one, and every one of which they know that it was awaited.
func (f *flight) markGranted(wait time.Duration) {
	f.advance(func(p *progress) {
		if p.grants == 0 || p.limit != "" {
			p.grants++
		}
		p.limit, p.permitWait = "", p.permitWait+wait
	})
}

func (f *flight) advance(change func(*progress)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.progress)
	close(f.changed)
	f.changed = make(chan struct{})
}

// isAt returns how far it is, and a channel that is closed when that changes.
func (f *flight) isAt() (progress, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.progress, f.changed
}

// finish tells the followers how it ended.
func (f *flight) finish(o outcome) {
	f.outcome = o
	close(f.done)
}

// markSent notes whether a request is at a provider; from then on stopping waits for its answer.
func (f *flight) markSent(sent bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = sent
}

func (f *flight) isSent() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent
}

// markBegun notes when it began, the first time.
func (f *flight) markBegun(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.since.IsZero() {
		f.since = at
	}
}

// begunBefore reports whether it surely began before the time.
func (f *flight) begunBefore(at time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.since.IsZero() && f.since.Before(at)
}

// belongsTo reports whether it is a call of the run and, unless step is empty, of that generation of the step.
func (f *flight) belongsTo(runID uuid.UUID, step string, generation int32) bool {
	ref := f.ask.req.GetStep()
	return f.ask.key.RunID == runID && (step == "" || ref.GetStep() == step && ref.GetGeneration() == generation)
}

// follow tells one caller how the flight goes, until it ends or the caller leaves. Leads is true for the caller that began
// it.
func (f *flight) follow(stream grpc.ServerStreamingServer[systemv1.GenerateResponse], leads bool) error {
	var told progress
	for {
		at, changed := f.isAt()
		if err := tell(stream, told, at); err != nil {
			return err
		}
		told = at
		select {
		case <-changed:
		case <-f.done:
			return f.last(stream, leads, told)
		case <-stream.Context().Done():
			return fault.Of(stream.Context().Err())
		}
	}
}

// tell sends what is new since a caller was told.
func tell(stream grpc.ServerStreamingServer[systemv1.GenerateResponse], told, at progress) error {
	switch {
	case at.limit != "" && at.limit != told.limit:
		return stream.Send(&systemv1.GenerateResponse{News: &systemv1.GenerateResponse_Waiting_{
			Waiting: &systemv1.GenerateResponse_Waiting{Limit: at.limit},
		}})
	case at.limit == "" && at.grants > told.grants:
		return stream.Send(&systemv1.GenerateResponse{News: &systemv1.GenerateResponse_Granted_{
			Granted: &systemv1.GenerateResponse_Granted{PermitWait: durationpb.New(at.permitWait)},
		}})
	default:
		return nil
	}
}

// last sends the end of the story.
func (f *flight) last(stream grpc.ServerStreamingServer[systemv1.GenerateResponse], leads bool, told progress) error {
	if f.outcome.err != nil {
		return f.outcome.err
	}
	at, _ := f.isAt()
	if at.grants > 0 {
		at.limit = "" // whoever heard of a wait hears that it is over
		if err := tell(stream, told, at); err != nil {
			return err
		}
	}
	err := stream.Send(f.outcome.message(f.ask, leads))
	failpoint.Hit("gateway.answer.told")
	return err
}

// flights are all calls of this replica that are on their way.
type flights struct {
	mu      sync.Mutex
	byKey   map[store.Key]*flight // guarded by mu
	closed  bool                  // guarded by mu
	changed chan struct{}         // guarded by mu; closed and replaced when one goes
}

func newFlights() *flights {
	return &flights{byKey: map[store.Key]*flight{}, changed: make(chan struct{})}
}

// join returns the flight that answers the question. Leads is true when it is new and must be flown.
func (r *flights) join(ctx context.Context, a *ask) (f *flight, leads bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.byKey[a.key]; f != nil {
		return f, false, nil
	}
	if r.closed {
		return nil, false, fault.Unavailable(errStopping, "the gateway is stopping; ask another one")
	}
	f = newFlight(ctx, a)
	r.byKey[a.key] = f
	return f, true, nil
}

func (r *flights) remove(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byKey, f.ask.key)
	close(r.changed)
	r.changed = make(chan struct{})
}

// close refuses new flights from now on.
func (r *flights) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// where returns the flights for which the condition holds.
func (r *flights) where(holds func(*flight) bool) []*flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*flight
	for _, f := range r.byKey {
		if holds(f) {
			list = append(list, f)
		}
	}
	return list
}

// runs returns the runs that have flights, each once.
func (r *flights) runs() []uuid.UUID {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[uuid.UUID]bool{}
	var ids []uuid.UUID
	for key := range r.byKey {
		if !seen[key.RunID] {
			seen[key.RunID] = true
			ids = append(ids, key.RunID)
		}
	}
	return ids
}

// awaitNone waits until there are no flights, or ctx ends; it reports which.
func (r *flights) awaitNone(ctx context.Context) bool {
	for {
		r.mu.Lock()
		n, changed := len(r.byKey), r.changed
		r.mu.Unlock()
		if n == 0 {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
