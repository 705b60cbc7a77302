package steprunner

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/steprunner/repeat"
)

// firstHeartbeatTimeout bounds heartbeats before the length of a lease is known.
const firstHeartbeatTimeout = 2 * time.Second

// lease is the runner's right to hold steps. It is renewed by one heartbeat for all of them, a quarter of a lease after
// the one before, and repeated at once when it fails.
type lease struct {
	orchestrator systemv1.OrchestratorServiceClient
	clock        clock.Clock
	log          *slog.Logger
	metrics      *metrics
	holds        *holds
	runner       uuid.UUID
	lanes        []*systemv1.LaneSlots
	description  string

	mu        sync.Mutex
	length    time.Duration // guarded by mu; 0 before the first confirmation
	sentAt    time.Time     // guarded by mu; when the last confirmed heartbeat was sent
	confirmed chan struct{} // guarded by mu; closed and replaced at each confirmation
}

// run renews the lease until ctx ends.
func (l *lease) run(ctx context.Context) {
	for l.renew(ctx) == nil {
		if l.clock.Sleep(ctx, l.untilNext()) != nil {
			return
		}
	}
}

// renew sends heartbeats until one is confirmed, and acts on its answer.
func (l *lease) renew(ctx context.Context) error {
	pace := repeat.NewPace(l.clock)
	for tries := 1; ; tries++ {
		sent := l.clock.Now()
		answer, err := l.beat(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.metrics.heartbeat(err)
		l.report(ctx, tries, err)
		if err == nil {
			// First what is to stop: whoever waits for the lease must not begin anything with a step that was taken away.
			l.obey(answer.GetStops())
			l.confirm(sent, answer.GetLease().AsDuration())
			return nil
		}
		if err := pace.Wait(ctx); err != nil {
			return err
		}
	}
}

// report logs the beginning and the end of a time without confirmation.
func (l *lease) report(ctx context.Context, tries int, err error) {
	switch {
	case err != nil && tries == 1:
		l.log.WarnContext(ctx, "heartbeat not confirmed; repeating it", "error", err)
	case err == nil && tries > 1:
		l.log.InfoContext(ctx, "heartbeat confirmed again", "tries", tries)
	}
}

// beat sends one heartbeat. Its deadline is a fifth of the lease, so that another replica can be asked in time.
func (l *lease) beat(ctx context.Context) (*systemv1.HeartbeatResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout())
	defer cancel()
	answer, err := l.orchestrator.Heartbeat(ctx, &systemv1.HeartbeatRequest{
		RunnerId:    l.runner[:],
		Lanes:       l.lanes,
		Holds:       describe(l.holds.all()),
		Description: l.description,
	})
	if err == nil && answer.GetLease().AsDuration() <= 0 {
		return nil, errors.New("the orchestrator granted a lease without length")
	}
	return answer, err
}

func (l *lease) timeout() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.length == 0 {
		return firstHeartbeatTimeout
	}
	return l.length / 5
}

func (l *lease) confirm(sent time.Time, length time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sentAt, l.length = sent, length
	close(l.confirmed)
	l.confirmed = make(chan struct{})
}

// obey stops what the orchestrator wants stopped. Nothing is told to the gateway: calls in flight are either joined by
// another attempt or aborted by the orchestrator itself.
func (l *lease) obey(stops []*systemv1.Stop) {
	for _, stop := range stops {
		fence, err := uuid.FromBytes(stop.GetFence())
		if err == nil && l.holds.stop(fence, &stopError{reason: stop.GetReason()}) {
			l.metrics.stopped(stop.GetReason())
		}
	}
}

func (l *lease) untilNext() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.length/4 - l.clock.Now().Sub(l.sentAt)
}

// valid reports whether the runner may claim steps and begin calls: not longer ago than 0.8 of the lease it sent a
// heartbeat that was confirmed. The rest of the lease is the margin for what it begins now.
func (l *lease) valid() bool {
	_, ok := l.state()
	return ok
}

// await waits until the lease is valid.
func (l *lease) await(ctx context.Context) error {
	for {
		confirmed, ok := l.state()
		if ok {
			return ctx.Err()
		}
		select {
		case <-confirmed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *lease) state() (confirmed <-chan struct{}, valid bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	age := l.clock.Now().Sub(l.sentAt)
	return l.confirmed, l.length > 0 && age <= l.length/5*4
}
