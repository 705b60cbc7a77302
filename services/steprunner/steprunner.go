// Package steprunner executes steps: it reads their ids from the streams, claims them from the orchestrator, evaluates,
// checks and asks models, and reports the outcomes.
//
// It decides nothing about what happens next and writes to no store. A step is executed only under a claim that the
// orchestrator has granted to this runner; an entry of a stream is deleted only when its step's outcome is stored or the
// step is not this runner's any more. Whatever is away, Redis, the orchestrator or the gateway, is waited for.
//
// Each class of steps has a lane of its own: a loop that reads, and slots. One lease covers both (heartbeat.go), and
// claims and completions of a lane travel in groups (claim.go, complete.go). The kinds of steps are in package step and
// its neighbours.
package steprunner

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"pawl.internal/services/internal/fault"
)

// Service is one runner.
type Service struct {
	log       *slog.Logger
	lease     *lease
	lanes     []*lane
	claimer   *claimer
	completer *completer
	attempts  *attempts
	grace     time.Duration

	draining *signal // no more reading
	leaving  *signal // no more working
	silence  *signal // no more heartbeats

	idle   chan struct{} // closed when no lane reads, and no claim and no attempt is under way
	silent chan struct{} // closed when no heartbeat will be sent any more
}

// Register adds nothing: nobody calls a runner.
func (s *Service) Register(grpc.ServiceRegistrar) {}

// Run executes steps until ctx ends. Drain must come before that, or claims are left to the end of the lease.
func (s *Service) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	working := s.leaving.end(ctx, errLeaving)
	reading := s.draining.end(working, errLeaving)
	beating := s.silence.end(ctx, errLeaving)
	for _, l := range s.lanes {
		s.attempts.work.Go(func() { l.run(working, reading) })
		group.Go(func() error { return l.inbox.run(ctx) })
	}
	group.Go(func() error { return s.claimer.gather.Run(ctx) })
	group.Go(func() error { return s.completer.gather.Run(ctx) })
	group.Go(func() error {
		defer close(s.silent)
		s.lease.run(beating)
		return nil
	})
	group.Go(func() error {
		defer close(s.idle)
		s.attempts.work.Wait()
		return nil
	})
	return group.Wait()
}

// Ready says why the runner receives no steps; nil if it does.
func (s *Service) Ready(context.Context) error {
	if s.draining.sent() {
		return fault.Unavailable(errLeaving, "the runner is shutting down")
	}
	if !s.lease.valid() {
		return fault.Unavailable(nil, "the orchestrator has not confirmed the lease")
	}
	for _, l := range s.lanes {
		if err := l.ready(); err != nil {
			return err
		}
	}
	return nil
}

// Drain reads nothing more, lets steps end, and hands back those that do not end within the configured grace: they begin
// elsewhere at once. It returns when that is done, or ctx ends.
func (s *Service) Drain(ctx context.Context) {
	s.draining.send()
	patient, cancel := context.WithTimeout(ctx, s.grace)
	defer cancel()
	within(patient, s.idle)
	s.leaving.send()
	within(ctx, s.idle)
	s.silence.send()
	within(ctx, s.silent)
	if err := s.attempts.leave(ctx); err != nil {
		s.log.WarnContext(ctx, "lease not handed back: its steps wait for its end", "error", err)
	}
	for _, l := range s.lanes {
		if err := l.inbox.flush(ctx); err != nil {
			s.log.WarnContext(ctx, "entries not deleted: the janitor finds them", "class", className(l.class), "error", err)
		}
	}
}
