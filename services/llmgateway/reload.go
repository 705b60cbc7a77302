package llmgateway

import (
	"context"
	"fmt"
	"time"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/llmgateway/catalog"
)

// lookAtModelsEvery is how often the models file is looked at. A change is taken over when the file has been the same at two
// looks.
const lookAtModelsEvery = time.Second

// reload takes over, until ctx ends, what the models file says anew. Calls that have begun end with what it said before.
func (s *Service) reload(ctx context.Context) error {
	if s.source == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return clock.Every(ctx, s.clock, lookAtModelsEvery, func(ctx context.Context) {
		if s.source.Changed() {
			s.reloadOnce(ctx)
		}
	})
}

// reloadOnce reads the models file and puts it to use. One that is wrong changes nothing.
func (s *Service) reloadOnce(ctx context.Context) {
	c, err := s.source.Load(s.clock.Now())
	if err != nil {
		s.metrics.modelsValid.Set(0)
		s.log.ErrorContext(ctx, "models file is not valid; what it said before stays in use", "error", err)
		return
	}
	if err := s.activate(ctx, c); err != nil {
		s.source.Again()
		s.log.WarnContext(ctx, "models file cannot be put to use yet; what it said before stays in use", "error", err)
		return
	}
	s.log.InfoContext(ctx, "models file is in use", "routes", c.RouteNames())
}

// activate makes a catalogue the one that calls begin with. Its prices are stored before anybody may pay them, and its limits
// hold before anybody asks for their permits.
func (s *Service) activate(ctx context.Context, c *catalog.Catalog) error {
	prices, err := s.store.PutPrices(ctx, c.Prices)
	if err != nil {
		return fmt.Errorf("store prices: %w", err)
	}
	before := s.models.current()
	next, err := newModels(c, prices, s.clock, before)
	if err != nil {
		return err
	}
	if s.permits != nil { // at the start they are made after the models
		s.permits.SetLimits(limitsOf(c))
		s.breakers.Retain(breakersOf(c))
	}
	s.models.replace(next)
	s.measure(before, next)
	for _, warning := range c.Warnings {
		s.log.WarnContext(ctx, "models file", "warning", warning)
	}
	for _, p := range c.Providers {
		s.log.InfoContext(ctx, "provider", "name", p.Name, "kind", p.Kind, "base_url", p.BaseURL, "keys", len(p.Keys),
			"models", c.Models(p.Name))
	}
	return nil
}

// measure brings the metrics of models up to date.
func (s *Service) measure(before, now *models) {
	if before != nil {
		for name := range before.accounts {
			if now.accounts[name] == nil {
				s.metrics.dropKeys(name)
			}
		}
	}
	kept := func(name string) bool { return before.has(now.accounts[name]) }
	s.metrics.loadedModels(now.catalog, kept, s.clock.Now())
}
