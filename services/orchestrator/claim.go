package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// claimBytes is how large the answer to a batch of claims may be; a single claim may be larger, up to store.InputsMax.
const claimBytes = 2 << 20

// ClaimSteps gives steps to a runner, with what their execution needs.
func (s *Service) ClaimSteps(ctx context.Context, req *systemv1.ClaimStepsRequest) (*systemv1.ClaimStepsResponse, error) {
	runner := idOf(req.GetRunnerId())
	if err := s.requireLease(ctx, runner); err != nil {
		return nil, err
	}
	events := make([]*store.Event, len(req.GetClaims()))
	for i, c := range req.GetClaims() {
		events[i] = claimEvent(c, runner)
	}
	errs := s.store.Submit(ctx, events...)
	if err := away(errs); err != nil {
		return nil, err
	}
	results := make([]*systemv1.ClaimResult, len(events))
	for i, e := range events {
		results[i] = &systemv1.ClaimResult{Status: s.claimStatus(ctx, e, errs[i])}
	}
	failpoint.Hit("orchestrator.claim.committed")
	if err := s.assign(ctx, events, results); err != nil {
		return nil, err
	}
	for _, r := range results {
		s.metrics.claimed(r.GetStatus())
	}
	return &systemv1.ClaimStepsResponse{Results: results}, nil
}

// requireLease refuses runners without a living lease: nobody would notice their death.
func (s *Service) requireLease(ctx context.Context, runner uuid.UUID) error {
	if s.runners.alive(runner) {
		return nil
	}
	alive, err := s.store.RunnerIsAlive(ctx, runner)
	if err != nil {
		return fmt.Errorf("look for the runner's lease: %w", err)
	}
	if !alive {
		return fault.New(faultv1.ErrorReason_ERROR_REASON_STALE_FENCE,
			"runner %s has no lease: its first heartbeat must be confirmed before it claims", runner)
	}
	return nil
}

func claimEvent(c *systemv1.Claim, runner uuid.UUID) *store.Event {
	fence := fenceOf(c.GetFence())
	return &store.Event{Ref: refOf(c.GetStep()), Claim: true, Make: func(ref machine.Ref, _ time.Time) machine.Event {
		return machine.Claimed{Ref: ref, Fence: fence, Worker: machine.ID(runner)}
	}}
}

// claimStatus is the answer to a claim. A claim that failed in itself is not worth repeating: while its step waits, the
// overdue sweep announces it again.
func (s *Service) claimStatus(ctx context.Context, e *store.Event, err error) systemv1.ClaimStatus {
	switch {
	case err != nil && !errors.Is(err, store.ErrNoRun):
		s.log.ErrorContext(ctx, "claim failed", "run_id", e.RunID, "step", e.Step, "error", err)
		return systemv1.ClaimStatus_CLAIM_STATUS_GONE
	case e.Answer == machine.Granted:
		return systemv1.ClaimStatus_CLAIM_STATUS_GRANTED
	case e.Answer == machine.Held:
		return systemv1.ClaimStatus_CLAIM_STATUS_HELD
	default:
		return systemv1.ClaimStatus_CLAIM_STATUS_GONE
	}
}

// assign reads what the granted steps are given. Those that do not fit into the answer are to be claimed again.
func (s *Service) assign(ctx context.Context, events []*store.Event, results []*systemv1.ClaimResult) error {
	var granted []int
	var wanted []store.Wanted
	for i, r := range results {
		if r.GetStatus() == systemv1.ClaimStatus_CLAIM_STATUS_GRANTED {
			grant := events[i].Grant
			granted = append(granted, i)
			wanted = append(wanted, store.Wanted{Ref: events[i].Ref, Inputs: grant.Pipeline.InputsOf(grant.Row.Key)})
		}
	}
	fit, err := s.fitting(ctx, events, granted, wanted)
	if err != nil {
		return err
	}
	given, err := s.store.Give(ctx, wanted[:fit])
	if err != nil {
		return err
	}
	for n, i := range granted {
		if n >= fit {
			results[i].Status = systemv1.ClaimStatus_CLAIM_STATUS_AGAIN
			continue
		}
		if results[i].Assignment, err = assignment(events[i].Grant, &given[n]); err != nil {
			return err
		}
	}
	return nil
}

// fitting returns how many of the granted claims, in order, fit into one answer: always the first.
func (s *Service) fitting(ctx context.Context, events []*store.Event, granted []int, wanted []store.Wanted) (int, error) {
	var most int64
	for _, i := range granted {
		most += events[i].Grant.Bytes
	}
	if most <= claimBytes {
		return len(granted), nil
	}
	sizes, err := s.store.Measure(ctx, wanted)
	if err != nil {
		return 0, err
	}
	var total int64
	for n, size := range sizes {
		if total += size; total > claimBytes && n > 0 {
			return n, nil
		}
	}
	return len(granted), nil
}

func assignment(g *store.Grant, given *store.Given) (*systemv1.Assignment, error) {
	a := &systemv1.Assignment{
		Tenant: g.Tenant, Class: classProto(g.Class), PipelineDigest: g.Pipeline.Digest[:],
		ClaimNo: int32(g.Row.ClaimNo), Attempt: int32(g.Row.Attempt), Failures: int32(g.Row.Failures),
		AskBase: int32(g.Row.AskBase), AmbiguousOk: int32(g.Row.AmbiguousOK), CallsLeft: callsLeft(g),
		EntityId: g.EntityID, Input: given.Input, Outputs: given.Outputs, Item: given.Item,
		BudgetPicoUsd: picoOrNil(g.Budget), SpendEpoch: int32(g.SpendEpoch), DeadlineIn: durationpb.New(max(g.DeadlineIn, 0)),
		LastChance: lastChance(g), Pipeline: g.Pipeline.Name + ":" + g.Pipeline.Version,
	}
	if g.Batch != uuid.Nil {
		a.BatchId, a.BatchBudgetPicoUsd = g.Batch[:], picoOrNil(g.BatchBudget)
	}
	if err := json.Unmarshal(g.Labels, &a.Labels); err != nil {
		return nil, fmt.Errorf("labels of a run: %w", err)
	}
	return a, nil
}

// lastChance reports whether the step has lost workers before, and one more would end it.
func lastChance(g *store.Grant) bool {
	return g.Row.Losses > 0 && g.Row.Losses+1 >= g.Pipeline.Plan(g.Class).Steps[g.Row.Step].MaxLost
}

// callsLeft is how many requests the step may still send to models; a step without a bound has all there are.
func callsLeft(g *store.Grant) int32 {
	const unbounded = 1 << 30
	limit := g.Pipeline.Plan(g.Class).Steps[g.Row.Step].MaxCalls
	if limit == 0 {
		return unbounded
	}
	return int32(max(limit-g.Row.Calls, 0))
}

func picoOrNil(m *money.Pico) *int64 {
	if m == nil {
		return nil
	}
	pico := int64(*m)
	return &pico
}
