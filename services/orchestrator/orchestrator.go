// Package orchestrator owns the state machine of runs and steps: it creates runs, hands steps to runners, takes their
// outcomes, and decides what happens next. The truth is in PostgreSQL (package store); streams carry ids only.
//
// It evaluates no expression of a user's, and calls no model and no other system. Any number of replicas may run; they share
// nothing but the stores. Calls are answered when what they did is on disk, claims excepted: losing one only means
// claiming again.
package orchestrator

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/orchestrator/store"
)

const (
	// partitionEvery is how often it is looked whether the days ahead have their partitions.
	partitionEvery = time.Hour
	// tidyEvery is how often rows of runners and replicas that are gone are removed.
	tidyEvery = time.Minute
)

// Service is one replica of the orchestrator.
type Service struct {
	systemv1.UnimplementedOrchestratorServiceServer

	config    Config
	clock     clock.Clock
	ids       *ids.Source
	log       *slog.Logger
	metrics   *metrics
	store     *store.Store
	publisher *publisher
	runners   *runners

	judge      *judge
	sweeper    *sweeper
	janitor    *janitor
	dispatcher *dispatcher
	relay      *relay
	batchLoop  *batchLoop
}

// Register adds the service's methods to a server.
func (s *Service) Register(r grpc.ServiceRegistrar) { systemv1.RegisterOrchestratorServiceServer(r, s) }

// Run commits what calls submit, and keeps the system going, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	publishing, stop := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error {
		defer stop() // what the last groups have to tell is still published
		return s.store.Run(ctx)
	})
	group.Go(func() error { return s.publisher.run(publishing) })
	for _, loop := range []func(context.Context) error{
		s.judge.run, s.sweeper.run, s.janitor.run, s.dispatcher.run, s.relay.run, s.batchLoop.run, s.keepPartitions, s.tidy,
	} {
		group.Go(func() error { return loop(ctx) })
	}
	return group.Wait()
}

// keepPartitions makes the partitions of the days that come closer. Build has made the first ones, before there were rows
// for them.
func (s *Service) keepPartitions(ctx context.Context) error {
	for {
		if err := s.clock.Sleep(ctx, partitionEvery); err != nil {
			return err
		}
		s.makePartitions(ctx)
	}
}

// makePartitions logs what goes wrong and leaves it to the next time: rows of a day without partitions have a place too.
func (s *Service) makePartitions(ctx context.Context) {
	if err := s.store.MakePartitions(ctx, s.clock.Now()); err != nil {
		s.log.WarnContext(ctx, "partitions of the days ahead are not complete", "error", err)
	}
}

// tidy removes what is left of runners and replicas that are gone.
func (s *Service) tidy(ctx context.Context) error {
	return clock.Every(ctx, s.clock, tidyEvery, func(ctx context.Context) {
		if err := s.store.Tidy(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "runners and replicas that are gone are not removed yet", "error", err)
		}
	})
}

// Ready reports whether PostgreSQL takes writes. Redis being away keeps nobody from submitting.
func (s *Service) Ready(context.Context) error { return s.judge.ready() }

// Drain has nothing to hand back: calls are answered until the server stops, and a step in work is its runner's.
func (s *Service) Drain(context.Context) {}
