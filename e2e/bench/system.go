// Package bench measures the whole system on one machine: how soon steps start when it is idle, how fast submits are
// answered while it works, and how many durable steps a second it gets through. It reports; it asserts nothing.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/sdk"
	"pawl.internal/services/cmd/pawl/dev"
)

const (
	startTime = 90 * time.Second
	stopTime  = 60 * time.Second
)

// system is `pawl dev` in one process, on private stores whose commits are durable.
type system struct {
	command *exec.Cmd
	ended   chan error
	folder  string
	record  dev.Record
	client  *sdk.Client
	db      *pgxpool.Pool
	// idleSyncs is how often in a second the idle system forces the log to disk.
	idleSyncs float64
	// profiles is the folder for profiles of the load; empty for none.
	profiles string
}

// start runs the program and waits until it answers.
func start(ctx context.Context, program string, log io.Writer) (*system, error) {
	folder, err := os.MkdirTemp("", "pawl-bench-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(folder, 0o711); err != nil { //nolint:gosec // the database's user must enter
		return nil, err
	}
	base, err := dev.FreePortBase(ctx)
	if err != nil {
		return nil, err
	}
	s := &system{folder: folder, ended: make(chan error, 1)}
	s.command = exec.Command(program, "dev", "--data-dir", folder, "--port-base", strconv.Itoa(base), "--log-level", "warn", "--profiles")
	s.command.Env = append(os.Environ(), "PAWL_INTAKE_SUBMIT_RATE=10000000", "PAWL_INTAKE_SUBMIT_BURST=1000000") // what is measured is not admission
	s.command.Stdout, s.command.Stderr = io.Discard, log
	s.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	go func() { s.ended <- s.command.Wait() }()
	if err := s.await(ctx); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, s.connect(ctx)
}

func (s *system) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		record, err := dev.ReadRecord(s.folder)
		if err == nil {
			s.record = *record
			return nil
		}
		select {
		case err := <-s.ended:
			s.ended <- err
			return fmt.Errorf("the system ended at once: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("the system did not start within %s", startTime)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *system) connect(ctx context.Context) (err error) {
	if s.client, err = sdk.New(s.record.GRPC, s.record.APIKey); err != nil {
		return err
	}
	s.db, err = pgxpool.New(ctx, s.record.DatabaseURL)
	return err
}

// apply stores a pipeline.
func (s *system) apply(ctx context.Context, file string) error {
	source, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	_, err = s.client.CreatePipeline(ctx, &pawlv1.CreatePipelineRequest{
		Pipeline: &pawlv1.CreatePipelineRequest_Source{Source: string(source)}, FileName: file,
	})
	return err
}

// stop ends the program in order and removes its data.
func (s *system) stop() error {
	if s.client != nil {
		_ = s.client.Close()
	}
	if s.db != nil {
		s.db.Close()
	}
	_ = s.command.Process.Signal(syscall.SIGTERM) // an error says that it has ended
	select {
	case err := <-s.ended:
		return errors.Join(err, os.RemoveAll(s.folder))
	case <-time.After(stopTime):
		return errors.Join(fmt.Errorf("the system did not end within %s", stopTime), s.command.Process.Kill())
	}
}

// profile collects a processor profile of the program until it is stopped, if a folder for profiles is given.
func (s *system) profile(name string) (stop func()) {
	if s.profiles == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			s.collect(ctx, filepath.Join(s.profiles, fmt.Sprintf("%s-%d.pprof", name, n)))
		}
	}()
	return func() { cancel(); <-done }
}

// collect writes a profile of two seconds; what is cut short is left out.
func (s *system) collect(ctx context.Context, file string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.record.Admin+"/debug/pprof/profile?seconds=2", http.NoBody)
	if err != nil {
		return
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return
	}
	defer response.Body.Close()
	if content, err := io.ReadAll(response.Body); err == nil {
		_ = os.WriteFile(file, content, 0o600) // a profile that cannot be written is missed, not more
	}
}
