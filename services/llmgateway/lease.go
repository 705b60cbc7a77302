package llmgateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/llmgateway/failure"
	"pawl.internal/services/llmgateway/store"
)

const (
	// renewals is how often a lease is renewed within its length.
	renewals = 10
	// lapse is how many renewals may be missing before the store counts as having been away.
	lapse = 3
	// mostOrphans is how many are judged at a time.
	mostOrphans = 1000
)

// lease is this gateway's right to have requests in flight: as long as it is renewed, nobody judges them. It also knows
// since when the store has been writable without a break, which is what the right to judge others follows from.
type lease struct {
	store       *store.Store
	clock       clock.Clock
	log         *slog.Logger
	holder      uuid.UUID
	length      time.Duration
	description string

	mu sync.Mutex
	// confirmed is when the newest renewal that succeeded was sent.
	confirmed time.Time // guarded by mu
	// held is since when the lease has not run out: every renewal since was there before the one before it was over.
	held time.Time // guarded by mu
	// steady is since when renewals have succeeded without a break; zero if the last one failed.
	steady time.Time // guarded by mu
	others int       // guarded by mu
}

// run renews the lease until ctx ends.
func (l *lease) run(ctx context.Context) error {
	return clock.Every(ctx, l.clock, l.interval(), func(ctx context.Context) {
		if err := l.renew(ctx); err != nil && ctx.Err() == nil {
			l.log.WarnContext(ctx, "lease cannot be renewed", "error", err)
		}
	})
}

func (l *lease) interval() time.Duration { return l.length / renewals }

func (l *lease) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lapse*l.interval())
	defer cancel()
	sent := l.clock.Now()
	others, err := l.store.RenewLease(ctx, l.holder, l.description, l.length)
	answered := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.steady = time.Time{}
		return err
	}
	if l.steady.IsZero() || sent.Sub(l.confirmed) > lapse*l.interval() {
		l.steady = sent
	}
	if l.confirmed.IsZero() || answered.Sub(l.confirmed) >= l.length {
		l.held = answered
	}
	l.confirmed, l.others = sent, others
	return nil
}

// fresh reports whether the lease is good for a little longer, on this gateway's own clock.
func (l *lease) fresh() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clock.Now().Sub(l.confirmed) < l.length*4/5
}

// goodSince reports whether the lease is fresh, and has not run out since a time of this gateway's clock. A lease that was
// renewed when it was over does not count: what was in flight before may have been judged.
func (l *lease) goodSince(then time.Time) bool {
	l.mu.Lock()
	unbroken := !l.held.After(then)
	l.mu.Unlock()
	return unbroken && l.fresh()
}

// mayJudge reports whether a lease that has run out cannot be the fault of an outage of the store: it has been writable for
// a whole lease, until now.
func (l *lease) mayJudge() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.steady.IsZero() && l.confirmed.Sub(l.steady) >= l.length &&
		l.clock.Now().Sub(l.confirmed) <= lapse*l.interval()
}

// replicas is how many gateways there are.
func (l *lease) replicas() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.others + 1
}

// judge ends, until ctx ends, the requests of gateways that have died: nobody knows what came of them.
func (s *Service) judge(ctx context.Context) error {
	return clock.Every(ctx, s.clock, s.lease.interval(), func(ctx context.Context) {
		if !s.lease.mayJudge() {
			return
		}
		if err := s.judgeOnce(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "orphans cannot be judged", "error", err)
		}
	})
}

func (s *Service) judgeOnce(ctx context.Context) error {
	orphans, err := s.store.FindOrphans(ctx, mostOrphans)
	if err != nil || len(orphans) == 0 {
		return err
	}
	if !s.lease.mayJudge() { // the look took long: the store may have been away for the others meanwhile
		return nil
	}
	changes := make([]store.Change, len(orphans))
	for i, o := range orphans {
		changes[i] = &store.Settle{Key: o.Key, TryNo: o.TryNo, OnlyInFlight: true, Outcome: store.Outcome{
			State: store.TryAmbiguous, Reason: failure.ReasonAmbiguous, Basis: store.WorstCase,
			Message: "the gateway that sent it has died",
		}}
	}
	failpoint.Hit("gateway.judge.found")
	errs := s.store.SubmitAll(ctx, changes)
	failpoint.Hit("gateway.judge.settled")
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	s.metrics.orphans.Add(float64(len(orphans)))
	s.log.WarnContext(ctx, "requests of dead gateways are ambiguous now", "count", len(orphans))
	return nil
}
