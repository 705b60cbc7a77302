// Package dev runs the whole system on one machine, for development, demonstrations and tests: the stores it needs, the
// schemas, a tenant with an API key, the pipelines that ship, and every service, in one process or each in its own.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/internal/telemetry"
)

// Config says what is run, and where.
type Config struct {
	Serve serve.Config `embed:""`

	DataDir  string `help:"Folder of the stores' data; it survives restarts." default:".pawl" type:"path"`
	PortBase int    `help:"First of the ports, when the standard ones are taken; 0 for the standard ones."`
	Separate bool   `help:"Run each service as a process of its own, and start it anew when it ends."`

	// Told is what the command line says, as variables: the processes of --separate are told the same.
	Told []string `kong:"-"`
}

// system is a running system.
type system struct {
	cfg    Config
	ports  Ports
	log    *slog.Logger
	output io.Writer // for what the processes of --separate print

	lock    *os.File // held as long as the system has the data folder
	record  recorder
	closers []func() // of the stores, in the order in which they were started
}

// mostGrace bounds how long the end of a system waits for its calls of models: somebody sits before it.
const mostGrace = 20 * time.Second

// Run runs the system until ctx ends. Once the system answers, ready is called with how it is reached.
func Run(ctx context.Context, cfg Config, output io.Writer, ready func(Record)) (err error) {
	cfg.Serve.LLMGateway.Grace = min(cfg.Serve.LLMGateway.Grace, mostGrace)
	s := &system{
		cfg: cfg, ports: PortsFrom(cfg.PortBase), log: telemetry.NewLogger(output, cfg.Serve.Log), output: output,
	}
	if err := s.takeFolder(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	defer context.AfterFunc(ctx, func() {
		fmt.Fprintln(output, "stopping: calls of models that are under way are awaited; Ctrl-C again ends it at once")
	})()
	if err := s.prepare(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.serve(ctx) })
	group.Go(func() error {
		record, err := s.open(ctx)
		if err != nil {
			return quiet(ctx, err)
		}
		ready(record)
		return nil
	})
	return group.Wait()
}

// quiet drops an error that only says that the system was told to stop.
func quiet(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// takeFolder makes the data folder and refuses one on which a system runs already.
func (s *system) takeFolder(ctx context.Context) error {
	folder, err := filepath.Abs(s.cfg.DataDir)
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	s.cfg.DataDir = folder
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	lock, held, err := take(folder)
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if lock == nil {
		return fmt.Errorf("a system already runs on %s (process %d): stop it, or choose another --data-dir", folder, held)
	}
	s.lock = lock
	if err := removeRecord(folder); err != nil { // of a system that was killed
		return errors.Join(err, lock.Close())
	}
	if err := s.checkPorts(ctx); err != nil {
		return errors.Join(err, lock.Close())
	}
	return nil
}

// checkPorts fails early, and with the way out, where a port is taken.
func (s *system) checkPorts(ctx context.Context) error {
	for _, port := range []int{s.ports.REST, s.ports.GRPC, s.ports.Admin, s.ports.OpenAI, s.ports.Orchestrator, s.ports.LLMGateway} {
		if err := probe(ctx, port); err != nil {
			return fmt.Errorf("port %d is taken: choose others with --port-base, such as --port-base 18080 (%w)", port, err)
		}
	}
	return nil
}

// prepare starts the stores that are not given, and makes schemas, tenant and key.
func (s *system) prepare(ctx context.Context) error {
	if err := s.startStores(ctx); err != nil {
		return err
	}
	database := s.cfg.Serve.Database.URL.Reveal()
	if err := pg.Migrate(ctx, database, serve.Schemas()...); err != nil {
		return err
	}
	key, err := s.ensureKey(ctx)
	if err != nil {
		return err
	}
	return s.record.update(func(r *Record) {
		*r = Record{
			REST: "http://" + loopback(s.ports.REST), GRPC: loopback(s.ports.GRPC),
			Admin: "http://" + loopback(s.ports.Admin), APIKey: key, OpenAI: "http://" + loopback(s.ports.OpenAI) + "/v1",
			DatabaseURL: database, RedisURL: s.cfg.Serve.Redis.URL.Reveal(), RedisPrefix: s.cfg.Serve.Redis.Prefix,
			DataDir: s.cfg.DataDir, PID: os.Getpid(), Services: map[string]ServiceRecord{},
		}
	})
}

// close stops the stores, the last started first, and lets go of the folder.
func (s *system) close() error {
	for _, stop := range slices.Backward(s.closers) {
		stop()
	}
	return errors.Join(removeRecord(s.cfg.DataDir), s.lock.Close())
}
