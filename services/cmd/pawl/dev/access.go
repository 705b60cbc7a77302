package dev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/sdk"
	"pawl.internal/services/intake"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/internal/pipeline"
)

const (
	// tenant owns what is done with the system's key.
	tenant = "default"
	// keyName is the file in the data folder that keeps the key over restarts.
	keyName = "api_key"
)

// ensureKey makes the tenant and its key, the same at every start.
func (s *system) ensureKey(ctx context.Context) (string, error) {
	file := filepath.Join(s.cfg.DataDir, keyName)
	kept, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("API key: %w", err)
	}
	pool, err := pg.Open(ctx, s.cfg.Serve.Database, "pawl-dev")
	if err != nil {
		return "", err
	}
	defer pool.Close()
	key, err := intake.EnsureKey(ctx, pool, tenant, store.RoleAdmin, strings.TrimSpace(string(kept)))
	if err != nil {
		return "", fmt.Errorf("API key of %s: %w", file, err)
	}
	return key, os.WriteFile(file, []byte(key+"\n"), 0o600)
}

// registerPipelines stores the pipelines that ship, as any client would.
func (s *system) registerPipelines(ctx context.Context, r Record) error {
	client, err := sdk.New(r.GRPC, r.APIKey)
	if err != nil {
		return err
	}
	defer client.Close()
	shipped, err := pipeline.Builtins()
	if err != nil {
		return err
	}
	for _, p := range shipped {
		request := &pawlv1.CreatePipelineRequest{
			Pipeline: &pawlv1.CreatePipelineRequest_Source{Source: string(p.Source)}, FileName: p.File,
		}
		if _, err := client.CreatePipeline(ctx, request); err != nil {
			return fmt.Errorf("pipeline %s: %w", p.File, err)
		}
	}
	return nil
}
