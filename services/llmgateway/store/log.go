package store

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/llmgateway/store/db"
)

// ListCalls returns the call log of a tenant's run, oldest first; empty also for a run that is another tenant's. It has
// neither requests nor answers: they may be long.
func (s *Store) ListCalls(ctx context.Context, tenant string, runID uuid.UUID) ([]*pawlv1.ModelCall, error) {
	query := db.New(s.pool)
	rows, err := query.ListCalls(ctx, runID, tenant)
	if err != nil || len(rows) == 0 {
		return nil, wrapList(err)
	}
	calls := make([]*pawlv1.ModelCall, len(rows))
	byKey := map[string]*pawlv1.ModelCall{}
	for i, r := range rows {
		calls[i] = callOf(r)
		byKey[string(r.CallKey)] = calls[i]
	}
	tries, err := query.ListTries(ctx, runID)
	for _, t := range tries {
		if c := byKey[string(t.CallKey)]; c != nil {
			c.Tries = append(c.Tries, tryOf(t, c.GetPromptVersion()))
		}
	}
	return calls, wrapList(err)
}

// GetCall returns one call of a tenant's run with what was asked, as far as it is kept, and the raw answers; nil if there is
// none.
func (s *Store) GetCall(ctx context.Context, tenant string, key Key) (*pawlv1.ModelCall, error) {
	calls, err := s.ListCalls(ctx, tenant, key.RunID)
	name := hex.EncodeToString(key.Digest[:])
	at := slices.IndexFunc(calls, func(c *pawlv1.ModelCall) bool { return c.GetCallKey() == name })
	if err != nil || at < 0 {
		return nil, err
	}
	call := calls[at]
	query := db.New(s.pool)
	requests, err := query.GetRequest(ctx, db.GetRequestParams{RunID: key.RunID, CallKey: key.Digest[:], Tenant: tenant})
	if err != nil {
		return nil, wrapList(err)
	}
	if len(requests) > 0 && string(requests[0]) != noRequest {
		call.Request = &pawlv1.JsonValue{Json: string(requests[0])}
	}
	bodies, err := query.ListBodies(ctx, key.RunID, key.Digest[:])
	for _, b := range bodies {
		for _, t := range call.GetTries() {
			if t.GetTryNo() == b.TryNo {
				t.RawAnswer = b.Answer
			}
		}
	}
	return call, wrapList(err)
}

// noRequest stands for a request that is not kept.
const noRequest = "null"

func wrapList(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("list calls: %w", pg.Fault(err))
}

func callOf(r db.ListCallsRow) *pawlv1.ModelCall {
	c := &pawlv1.ModelCall{
		CallKey: hex.EncodeToString(r.CallKey), Step: r.Step, State: r.State, CostUsd: r.Cost.String(), Replays: r.Replays,
		CreatedAt: timestamppb.New(r.CreatedAt), Class: classOf(r.Class), Generation: r.Generation, Ask: r.Ask,
		PromptVersion: r.PromptVersion, FinishedAt: timeOf(r.FinishedAt), CorrectedAt: timeOf(r.CorrectedAt),
	}
	if r.Shard >= 0 {
		c.Shard = &r.Shard
	}
	return c
}

func classOf(word string) pawlv1.RunClass {
	if word == "batch" {
		return pawlv1.RunClass_RUN_CLASS_BATCH
	}
	return pawlv1.RunClass_RUN_CLASS_INTERACTIVE
}

func timeOf(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}

func tryOf(r db.ListTriesRow, promptVersion string) *pawlv1.ModelTry {
	t := &pawlv1.ModelTry{
		TryNo: r.TryNo, Provider: r.Provider, Model: r.Model, Format: r.Format, KeyId: r.KeyID, State: r.State, HttpStatus: r.HttpStatus,
		Reason: r.Reason, Message: r.Message, FinishReason: r.FinishReason,
		InputTokens: r.InputTokens, CachedInputTokens: r.CachedInputTokens, CacheWriteTokens: r.CacheWriteTokens,
		OutputTokens: r.OutputTokens, ReasoningTokens: r.ReasoningTokens, CostUsd: r.Cost.String(), CostBasis: r.CostBasis,
		ProviderRequestId: r.ProviderRequestID, Latency: durationpb.New(r.Latency), PermitWait: durationpb.New(r.PermitWait),
		SentAt: timestamppb.New(r.SentAt), PromptVersion: promptVersion,
	}
	if r.FirstByte != nil {
		t.FirstByte = durationpb.New(*r.FirstByte)
	}
	return t
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
