package testkit

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"pawl.internal/services/internal/localstore"
)

// Stores are a PostgreSQL and a Redis server for tests. Each is started when it is first asked for.
type Stores struct {
	mu       sync.Mutex
	folder   string               // guarded by mu
	postgres *localstore.Postgres // guarded by mu
	redis    *localstore.Redis    // guarded by mu
}

// StartStores starts both servers. Stop ends them.
func StartStores(ctx context.Context) (*Stores, error) {
	s := &Stores{}
	_, postgresErr := s.PostgresURL(ctx)
	_, redisErr := s.RedisURL(ctx)
	if err := errors.Join(postgresErr, redisErr); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// PostgresURL returns the URL of the PostgreSQL server.
func (s *Stores) PostgresURL(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.postgres == nil {
		if err := s.makeFolder(); err != nil {
			return "", err
		}
		server, err := startPostgres(ctx, s.folder)
		if err != nil {
			return "", err
		}
		s.postgres = server
	}
	return s.postgres.URL(), nil
}

// RedisURL returns the URL of the Redis server.
func (s *Stores) RedisURL(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.redis == nil {
		if err := s.makeFolder(); err != nil {
			return "", err
		}
		server, err := startRedis(ctx, s.folder)
		if err != nil {
			return "", err
		}
		s.redis = server
	}
	return s.redis.URL(), nil
}

// Environment lists the variables that make other test binaries use the servers; both must have been started.
func (s *Stores) Environment() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []string{PostgresURLVariable + "=" + s.postgres.URL(), RedisURLVariable + "=" + s.redis.URL()}
}

// Stop ends the servers and removes their data.
func (s *Stores) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.postgres != nil {
		s.postgres.Kill() // nobody will read what a clean stop would write
	}
	if s.redis != nil {
		s.redis.Kill()
	}
	if s.folder != "" {
		_ = os.RemoveAll(s.folder) // a leftover in the temporary folder harms nobody
	}
}

// makeFolder makes the folder of the servers' data once. s.mu is held.
func (s *Stores) makeFolder() (err error) {
	if s.folder == "" {
		s.folder, err = dataFolder()
	}
	return err
}

// dataFolder makes a temporary folder that the database's user may enter too.
func dataFolder() (string, error) {
	folder, err := os.MkdirTemp("", "pawl-test-")
	if err != nil {
		return "", err
	}
	return folder, os.Chmod(folder, 0o711) //nolint:gosec // others may pass, not look
}

func startPostgres(ctx context.Context, folder string, settings ...string) (*localstore.Postgres, error) {
	return localstore.StartPostgres(ctx, localstore.PostgresConfig{
		Dir: filepath.Join(folder, "postgres"), Unsafe: true, Settings: settings,
	})
}

func startRedis(ctx context.Context, folder string) (*localstore.Redis, error) {
	cfg := localstore.RedisConfig{Dir: filepath.Join(folder, "redis"), Real: true}
	return localstore.StartRedis(ctx, cfg, slog.New(slog.DiscardHandler))
}
