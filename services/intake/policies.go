package intake

import (
	"context"
	"log/slog"
	"time"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/clock"
)

const (
	// policyEvery is how often a replica looks for policies that are owed, and policyMost how many it sends at a time.
	policyEvery = 3 * time.Second
	policyMost  = 100
)

// policies tells the orchestrator how tenants share the runners, and repeats it until it is confirmed. What is owed stands
// in the database, so any replica sends what another one could not.
type policies struct {
	store        *store.Store
	orchestrator systemv1.OrchestratorServiceClient
	clock        clock.Clock
	log          *slog.Logger
	// wake holds a token when something has changed here.
	wake chan struct{}
	// failing is whether the last look went wrong; only run uses it.
	failing bool
}

func newPolicies(s *store.Store, o systemv1.OrchestratorServiceClient, c clock.Clock, log *slog.Logger) *policies {
	return &policies{store: s, orchestrator: o, clock: c, log: log, wake: make(chan struct{}, 1)}
}

// hurry makes the next look come at once.
func (p *policies) hurry() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run sends what is owed until ctx ends.
func (p *policies) run(ctx context.Context) {
	for {
		err := p.send(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !p.failing {
			p.log.WarnContext(ctx, "the orchestrator cannot be told of tenants' weights and limits; it is tried again", "error", err)
		}
		p.failing = err != nil
		if !p.rest(ctx) {
			return
		}
	}
}

// rest waits for the next look; it reports false when ctx ends.
func (p *policies) rest(ctx context.Context) bool {
	timer := p.clock.NewTimer(policyEvery)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-p.wake:
	case <-ctx.Done():
		return false
	}
	return true
}

// send sends one batch of what is owed. It stops at the first that is not taken.
func (p *policies) send(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	owed, err := p.store.PoliciesOwed(ctx, policyMost)
	if err != nil {
		return err
	}
	for _, each := range owed {
		if _, err := p.orchestrator.SetTenantPolicy(ctx, &systemv1.SetTenantPolicyRequest{
			Tenant: each.Tenant, Weight: each.Weight, MaxConcurrentSteps: each.MaxConcurrentSteps, Version: each.Version,
		}); err != nil {
			return err
		}
		if err := p.store.ConfirmPolicy(ctx, each.Tenant, each.Version); err != nil {
			return err
		}
	}
	return nil
}
