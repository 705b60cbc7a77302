package llmgateway

import (
	"context"
	"time"

	"github.com/google/uuid"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/llmgateway/store"
)

// watchEvery is how soon a replica learns of calls that another one was told to abort.
const watchEvery = 500 * time.Millisecond

// CancelCalls aborts the calls of a run, or of one of its steps, that are in flight: here at once, on other replicas within
// a moment, because they watch the purse and the cancelled steps.
//
// The calls of a run end with its purse, which was closed before. A request that comes late, when the run was opened again
// and its purse too, must not end the calls that have begun since.
func (s *Service) CancelCalls(ctx context.Context, req *systemv1.CancelCallsRequest) (*systemv1.CancelCallsResponse, error) {
	runID := uuid.UUID(req.GetRunId())
	if req.GetStep() == "" {
		aborted, err := s.abortCancelled(ctx, []uuid.UUID{runID})
		return &systemv1.CancelCallsResponse{Aborted: int32(aborted)}, err
	}
	if err := s.store.CancelStep(ctx, runID, req.GetStep(), req.GetGeneration()); err != nil {
		return nil, err
	}
	aborted := s.abort(func(f *flight) bool { return f.belongsTo(runID, req.GetStep(), req.GetGeneration()) })
	return &systemv1.CancelCallsResponse{Aborted: int32(aborted)}, nil
}

// SetSpendGate opens or closes purses.
func (s *Service) SetSpendGate(ctx context.Context, req *systemv1.SetSpendGateRequest) (*systemv1.SetSpendGateResponse, error) {
	changes := make([]store.Change, len(req.GetGates()))
	for i, g := range req.GetGates() {
		gate := &store.Gate{RunID: uuid.UUID(g.GetRunId()), Tenant: g.GetTenant(), Epoch: g.GetEpoch(), Open: g.GetOpen()}
		if g.BudgetPicoUsd != nil {
			budget := money.Pico(g.GetBudgetPicoUsd())
			gate.Budget = &budget
		}
		changes[i] = gate
	}
	errs := s.store.SubmitAll(ctx, changes)
	failpoint.Hit("gateway.gate.stored")
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return &systemv1.SetSpendGateResponse{}, nil
}

// abort ends the flights for which the condition holds, and returns how many.
func (s *Service) abort(holds func(*flight) bool) int {
	flights := s.flights.where(holds)
	for _, f := range flights {
		f.end(errCancelled)
	}
	return len(flights)
}

// watch aborts, until ctx ends, the calls that were cancelled elsewhere.
func (s *Service) watch(ctx context.Context) error {
	return clock.Every(ctx, s.clock, watchEvery, func(ctx context.Context) {
		runs := s.flights.runs()
		if len(runs) == 0 {
			return
		}
		_, _ = s.abortCancelled(ctx, runs) // while the store is away, what is in flight goes on
	})
}

// abortCancelled ends those flights of the runs that began before their purse was closed, or their step cancelled, and
// returns how many.
func (s *Service) abortCancelled(ctx context.Context, runs []uuid.UUID) (aborted int, err error) {
	orders, err := s.store.FindCancelled(ctx, runs)
	if err != nil {
		return 0, err
	}
	for _, o := range orders {
		aborted += s.abort(func(f *flight) bool { return f.belongsTo(o.RunID, o.Step, o.Generation) && f.begunBefore(o.At) })
	}
	return aborted, nil
}
