package store

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/llmgateway/store/db"
)

// ListCalls returns the call log of a tenant's run, oldest first; empty also for a run that is another tenant's.
func (s *Store) ListCalls(ctx context.Context, tenant string, runID uuid.UUID) ([]*pawlv1.ModelCall, error) {
	query := db.New(s.pool)
	rows, err := query.ListCalls(ctx, runID, tenant)
	if err != nil || len(rows) == 0 {
		return nil, wrapList(err)
	}
	calls := make([]*pawlv1.ModelCall, len(rows))
	byKey := map[string]*pawlv1.ModelCall{}
	versions := map[string]string{}
	for i, r := range rows {
		calls[i] = callOf(r)
		byKey[string(r.CallKey)], versions[string(r.CallKey)] = calls[i], r.PromptVersion
	}
	tries, err := query.ListTries(ctx, runID)
	for _, t := range tries {
		if c := byKey[string(t.CallKey)]; c != nil {
			c.Tries = append(c.Tries, tryOf(t, versions[string(t.CallKey)]))
		}
	}
	return calls, wrapList(err)
}

func wrapList(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("list calls: %w", pg.Fault(err))
}

func callOf(r db.ListCallsRow) *pawlv1.ModelCall {
	c := &pawlv1.ModelCall{
		CallKey: hex.EncodeToString(r.CallKey), Step: r.Step, State: r.State, CostUsd: r.Cost.String(), Replays: r.Replays,
		CreatedAt: timestamppb.New(r.CreatedAt),
	}
	if r.Shard >= 0 {
		c.Shard = &r.Shard
	}
	if r.FinishedAt != nil {
		c.FinishedAt = timestamppb.New(*r.FinishedAt)
	}
	return c
}

func tryOf(r db.ListTriesRow, promptVersion string) *pawlv1.ModelTry {
	return &pawlv1.ModelTry{
		TryNo: r.TryNo, Provider: r.Provider, Model: r.Model, HttpStatus: r.HttpStatus, Reason: r.Reason,
		InputTokens: r.InputTokens, CachedInputTokens: r.CachedInputTokens, OutputTokens: r.OutputTokens,
		CostUsd: r.Cost.String(), ProviderRequestId: r.ProviderRequestID, Latency: durationpb.New(r.Latency),
		PermitWait: durationpb.New(r.PermitWait), SentAt: timestamppb.New(r.SentAt), PromptVersion: promptVersion,
	}
}

// Cancellation is an order to abort calls.
type Cancellation struct {
	RunID uuid.UUID
	// Step and Generation are those that are meant; an empty step means the whole run.
	Step       string
	Generation int32
	// At is when it was given: calls that began later are not meant.
	At time.Time
}

// CancelStep notes, for all replicas, that the calls of a step are to be aborted. The calls of a whole run need no note:
// its closed purse is one.
func (s *Store) CancelStep(ctx context.Context, runID uuid.UUID, step string, generation int32) error {
	err := db.New(s.pool).PutCancelledStep(ctx, db.PutCancelledStepParams{RunID: runID, Step: step, Generation: generation})
	if err != nil {
		return fmt.Errorf("note cancelled step: %w", pg.Fault(err))
	}
	return nil
}

// FindCancelled returns the orders that concern the runs.
func (s *Store) FindCancelled(ctx context.Context, runs []uuid.UUID) ([]Cancellation, error) {
	rows, err := db.New(s.control).FindCancelled(ctx, runs)
	if err != nil {
		return nil, fmt.Errorf("find cancelled runs: %w", pg.Fault(err))
	}
	orders := make([]Cancellation, len(rows))
	for i, r := range rows {
		orders[i] = Cancellation{RunID: r.RunID, Step: r.Step, Generation: r.Generation, At: r.At}
	}
	return orders, nil
}
