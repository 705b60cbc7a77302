package dev

import (
	"context"
	"fmt"
	"path/filepath"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/localstore"
)

// startStores starts the stores that are not given.
func (s *system) startStores(ctx context.Context) error {
	if s.cfg.Serve.Database.URL.IsZero() {
		server, err := localstore.StartPostgres(ctx, localstore.PostgresConfig{
			Dir: filepath.Join(s.cfg.DataDir, "postgres"), Port: s.ports.Postgres,
		})
		if err != nil {
			return fmt.Errorf("postgresql: %w", err)
		}
		s.tend(ctx, "postgresql", server)
		s.cfg.Serve.Database.URL = config.NewSecret(server.URL())
	}
	if s.cfg.Serve.Redis.URL.IsZero() {
		server, err := localstore.StartRedis(ctx, localstore.RedisConfig{
			Dir: filepath.Join(s.cfg.DataDir, "redis"), Port: s.ports.Redis,
		}, s.log)
		if err != nil {
			return fmt.Errorf("redis: %w", err)
		}
		s.tend(ctx, "redis", server)
		s.cfg.Serve.Redis.URL = config.NewSecret(server.URL())
	}
	return nil
}

// server is a store of the system's own, which runs.
type server interface {
	// Start runs it again.
	Start(ctx context.Context) error
	// Ended waits until it has ended, and says how, or until ctx ends.
	Ended(ctx context.Context) error
	// Stop ends it in order.
	Stop()
}

// tend keeps a store running, whatever ends it, until close.
func (s *system) tend(ctx context.Context, name string, own server) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // services still need it while they stop
	done := make(chan struct{})
	go func() {
		defer close(done)
		keep(ctx, clock.System(), s.output, name, func(ctx context.Context, restarts int) error {
			if restarts > 0 {
				if err := own.Start(ctx); err != nil {
					return err
				}
			}
			return own.Ended(ctx)
		})
	}()
	s.closers = append(s.closers, func() {
		cancel()
		<-done
		own.Stop()
	})
}
