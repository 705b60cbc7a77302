package orchestrator

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

const (
	// relayEvery is how often it is looked whether something is still owed to the gateway.
	relayEvery = time.Second
	// relayMost is how many gates or cancels are told at a time, and cancelsAtOnce how many calls that takes at once.
	relayMost     = 500
	cancelsAtOnce = 8
)

// relay tells the gateway what transitions owe it: purses to be closed or opened, and calls to be aborted. It repeats
// everything until the gateway has confirmed it.
type relay struct {
	store   *store.Store
	gateway systemv1.GatewayServiceClient
	clock   clock.Clock
	log     *slog.Logger
	wake    chan struct{}
}

// notice wakes the relay when a group may have owed something: a run has ended, or was opened again.
func (r *relay) notice(n store.Notices) {
	for _, c := range n.Changes {
		if c.Status.Terminal() || c.Status == machine.RunCompensating || c.Status == machine.RunNeedsReview {
			select {
			case r.wake <- struct{}{}:
			default:
			}
			return
		}
	}
}

// run relays until ctx ends.
func (r *relay) run(ctx context.Context) error {
	for {
		if err := r.round(ctx); err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "the gateway could not be told, and is told again", "error", err)
			if err := r.clock.Sleep(ctx, relayEvery); err != nil {
				return err
			}
		}
		timer := r.clock.NewTimer(relayEvery)
		select {
		case <-r.wake:
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}

// round tells all that is owed: gates first, so that no call begins after its run's calls were aborted.
func (r *relay) round(ctx context.Context) error {
	for {
		gates, err := r.store.OwedGates(ctx, relayMost)
		if err != nil {
			return err
		}
		if err := r.tellGates(ctx, gates); err != nil {
			return err
		}
		cancels, err := r.store.OwedCancels(ctx, relayMost)
		if err != nil {
			return err
		}
		if err := r.tellCancels(ctx, cancels); err != nil {
			return err
		}
		if len(gates) < relayMost && len(cancels) < relayMost {
			return nil
		}
	}
}

func (r *relay) tellGates(ctx context.Context, gates []store.Gate) error {
	if len(gates) == 0 {
		return nil
	}
	request := &systemv1.SetSpendGateRequest{}
	for _, g := range gates {
		gate := &systemv1.SetSpendGateRequest_Gate{RunId: g.RunID[:], Tenant: g.Tenant, Epoch: int32(g.Epoch), Open: g.Open}
		if g.Budget != nil {
			budget := int64(*g.Budget)
			gate.BudgetPicoUsd = &budget
		}
		request.Gates = append(request.Gates, gate)
	}
	if _, err := r.gateway.SetSpendGate(ctx, request); err != nil {
		return err
	}
	return r.store.ConfirmGates(ctx, gates)
}

func (r *relay) tellCancels(ctx context.Context, cancels []store.Ref) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(cancelsAtOnce)
	for _, ref := range cancels {
		group.Go(func() error {
			_, err := r.gateway.CancelCalls(ctx, &systemv1.CancelCallsRequest{
				RunId: ref.RunID[:], Step: ref.Step, Generation: int32(ref.Generation),
			})
			if err != nil {
				return err
			}
			return r.store.ConfirmCancel(ctx, ref)
		})
	}
	return group.Wait()
}
