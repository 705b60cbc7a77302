package orchestrator

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/fault"
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
	// guiltyMost bounds the gates that one round finds to be refused one by one.
	guiltyMost = 8
)

// relay tells the gateway what transitions owe it: purses to be closed or opened, and calls to be aborted. It repeats
// everything until the gateway has confirmed it. What the gateway refuses although it is there holds nothing else up: it
// stays owed, and is told again after ever longer pauses.
type relay struct {
	store    *store.Store
	gateway  systemv1.GatewayServiceClient
	clock    clock.Clock
	log      *slog.Logger
	wake     chan struct{}
	refusals refusals
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
	timer := r.clock.NewTimer(r.refusals.pause(r.clock.Now(), relayEvery))
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

// round tells all that is owed and not put off. Gates that cannot be told do not keep cancels from being told.
func (r *relay) round(ctx context.Context) error {
	for guilty := 0; ; {
		gates, err := r.store.OwedGates(ctx, r.refusals.putOff(r.clock.Now()), relayMost)
		if err != nil {
			return err
		}
		failed := r.tellGates(ctx, gates, &guilty)
		cancels, err := r.store.OwedCancels(ctx, r.refusals.putOff(r.clock.Now()), relayMost)
		if err != nil {
			return errors.Join(failed, err)
		}
		failed = errors.Join(failed, r.tellCancels(ctx, cancels))
		if failed != nil || len(gates) < relayMost && len(cancels) < relayMost {
			return failed
		}
	}
}

// tellGates tells gates together. When that is refused, it halves them down to the guilty ones, which are put off; of these
// there are few, or it is the gateway that is at fault.
func (r *relay) tellGates(ctx context.Context, gates []store.Gate, guilty *int) error {
	if len(gates) == 0 {
		return nil
	}
	err := r.setGates(ctx, gates)
	switch {
	case err == nil:
		failpoint.Hit("orchestrator.relay.told")
		return r.store.ConfirmGates(ctx, gates)
	case passing(err) || *guilty >= guiltyMost:
		return err
	case len(gates) == 1:
		*guilty++
		r.putOff(ctx, gates[0].Owed(), err)
		return nil
	}
	half := len(gates) / 2
	if err := r.tellGates(ctx, gates[:half], guilty); err != nil {
		return err
	}
	return r.tellGates(ctx, gates[half:], guilty)
}

func (r *relay) setGates(ctx context.Context, gates []store.Gate) error {
	request := &systemv1.SetSpendGateRequest{}
	for _, g := range gates {
		request.Gates = append(request.Gates, &systemv1.SetSpendGateRequest_Gate{
			RunId: g.RunID[:], Tenant: g.Tenant, Epoch: int32(g.Epoch), Open: g.Open, BudgetPicoUsd: picoOrNil(g.Budget),
		})
	}
	failpoint.Hit("orchestrator.relay.owed")
	_, err := r.gateway.SetSpendGate(ctx, request)
	return err
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
			if err != nil && !passing(err) {
				r.putOff(ctx, c.Owed(), err)
				return nil
			}
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

// putOff lets something that was refused wait. It is logged when that happens for the first time.
func (r *relay) putOff(ctx context.Context, o store.Owed, why error) {
	if r.refusals.add(o, r.clock.Now()) {
		r.log.ErrorContext(ctx, "the gateway refuses what it must be told; it is told again from time to time, and others meanwhile",
			"run_id", o.RunID, "step", o.Step, "error", why)
	}
}

// passing reports whether an error says nothing about what was told: the gateway is away, busy or slow, or we are stopping.
func passing(err error) bool {
	switch fault.CodeOf(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted, codes.ResourceExhausted:
		return true
	default:
		return false
	}
}
