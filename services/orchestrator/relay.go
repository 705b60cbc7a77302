package orchestrator

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/orchestrator/store"
)

const (
	// relayEvery is how often it is looked whether another replica has left something untold, and relayAgain the wait after
	// a failure.
	relayEvery = 5 * time.Second
	relayAgain = time.Second
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

// notice wakes the relay when a group owes the gateway something.
func (r *relay) notice(n store.Notices) {
	if !n.Owed {
		return
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run relays until ctx ends.
func (r *relay) run(ctx context.Context) error {
	for {
		err := r.round(ctx)
		if err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "the gateway could not be told, and is told again", "error", err)
		}
		if err := r.wait(ctx, err == nil); err != nil {
			return err
		}
	}
}

// wait returns when there may be something to tell.
func (r *relay) wait(ctx context.Context, well bool) error {
	if !well {
		return r.clock.Sleep(ctx, relayAgain)
	}
	timer := r.clock.NewTimer(relayEvery)
	defer timer.Stop()
	select {
	case <-r.wake:
		return nil
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// round tells all that is owed. Gates that cannot be told do not keep cancels from being told.
func (r *relay) round(ctx context.Context) error {
	for {
		gates, err := r.store.OwedGates(ctx, relayMost)
		if err != nil {
			return err
		}
		failed := r.tellGates(ctx, gates)
		cancels, err := r.store.OwedCancels(ctx, relayMost)
		if err != nil {
			return errors.Join(failed, err)
		}
		failed = errors.Join(failed, r.tellCancels(ctx, cancels))
		if failed != nil || len(gates) < relayMost && len(cancels) < relayMost {
			return failed
		}
	}
}

func (r *relay) tellGates(ctx context.Context, gates []store.Gate) error {
	if len(gates) == 0 {
		return nil
	}
	request := &systemv1.SetSpendGateRequest{}
	for _, g := range gates {
		request.Gates = append(request.Gates, &systemv1.SetSpendGateRequest_Gate{
			RunId: g.RunID[:], Tenant: g.Tenant, Epoch: int32(g.Epoch), Open: g.Open, BudgetPicoUsd: picoOrNil(g.Budget),
		})
	}
	failpoint.Hit("orchestrator.relay.owed")
	if _, err := r.gateway.SetSpendGate(ctx, request); err != nil {
		return err
	}
	failpoint.Hit("orchestrator.relay.told")
	return r.store.ConfirmGates(ctx, gates)
}

// tellCancels confirms what was told, even if others could not be.
func (r *relay) tellCancels(ctx context.Context, cancels []store.Cancel) error {
	if len(cancels) == 0 {
		return nil
	}
	var calls errgroup.Group
	calls.SetLimit(cancelsAtOnce)
	var mu sync.Mutex
	var told []store.Cancel
	for _, c := range cancels {
		calls.Go(func() error {
			_, err := r.gateway.CancelCalls(ctx, &systemv1.CancelCallsRequest{
				RunId: c.RunID[:], Step: c.Step, Generation: int32(c.Generation),
			})
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			told = append(told, c)
			return nil
		})
	}
	err := calls.Wait()
	failpoint.Hit("orchestrator.relay.aborted")
	return errors.Join(err, r.store.ConfirmCancels(ctx, told))
}
