package llmgateway

import (
	"context"
	"time"

	"github.com/google/uuid"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/llmgateway/store"
)

const (
	// tellEvery is how often the orchestrator is told what runs have spent. Completions carry the same figures, so this
	// serves runs whose calls outlast their steps.
	tellEvery = time.Second
	// sweepEvery is how often figures are looked for that were left owed by gateways that have died, and owedFor how long
	// they must have been.
	sweepEvery = 10 * time.Second
	owedFor    = 15 * time.Second
	// tellMost is how many runs are told at a time.
	tellMost = 1000
)

// tell tells the orchestrator, until ctx ends, what runs have spent, and again until it has confirmed.
func (s *Service) tell(ctx context.Context) error {
	return clock.Every(ctx, s.clock, tellEvery, func(ctx context.Context) {
		for ctx.Err() == nil {
			owed := s.store.TakeOwed(tellMost)
			if len(owed) == 0 {
				return
			}
			if err := s.tellOnce(ctx, owed); err != nil {
				s.store.PutBackOwed(owed)
				s.log.DebugContext(ctx, "spend is not confirmed", "runs", len(owed), "error", err)
				return
			}
		}
	})
}

func (s *Service) tellOnce(ctx context.Context, owed []store.Owed) error {
	req := &systemv1.RecordSpendRequest{}
	for _, o := range owed {
		req.Runs = append(req.Runs, &systemv1.RecordSpendRequest_RunSpend{
			RunId: o.RunID[:], Spend: &systemv1.Spend{SpentPicoUsd: int64(o.Spend.Amount), Version: o.Spend.Version},
		})
	}
	failpoint.Hit("gateway.spend.owed")
	if _, err := s.orchestrator.RecordSpend(ctx, req); err != nil {
		return err
	}
	failpoint.Hit("gateway.spend.told")
	return s.store.ConfirmOwed(ctx, owed)
}

// sweep finds, until ctx ends, the figures that dead gateways have left owed.
func (s *Service) sweep(ctx context.Context) error {
	return clock.Every(ctx, s.clock, sweepEvery, func(ctx context.Context) {
		if err := s.store.FindOwed(ctx, owedFor, tellMost); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "owed spend cannot be found", "error", err)
		}
		if err := s.bookUnbooked(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "what older gateways have settled cannot be booked", "error", err)
		}
	})
}

// bookUnbooked adds to the days' spend what gateways of an older version have settled.
func (s *Service) bookUnbooked(ctx context.Context) error {
	for n := 1; n > 0; {
		var err error
		if n, err = s.store.BookUnbooked(ctx, uuid.Nil, tellMost); err != nil {
			return err
		}
	}
	return nil
}
