package orchestrator

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// readRun returns a tenant's run as it is shown, with its result if it has one.
func (s *Service) readRun(ctx context.Context, tenant, id string) (*systemv1.GetRunResponse, error) {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return nil, noRun(id)
	}
	run, result, err := s.store.ReadRun(ctx, tenant, parsed)
	if err != nil {
		return nil, refusal(id, err)
	}
	shown, err := runProto(run)
	if err != nil {
		return nil, err
	}
	switch {
	case result != nil:
		shown.Result = &pawlv1.JsonValue{Json: string(result)}
	case shown.GetStatus() == pawlv1.RunStatus_RUN_STATUS_DONE:
		shown.Error = fmt.Sprintf("the result is larger than %d bytes: read the outputs of step %s", store.InputsMax, run.OutputStep)
	}
	return &systemv1.GetRunResponse{Run: shown, Kind: run.Kind}, nil
}

// runProto shows a run without its result.
func runProto(v *store.RunView) (*pawlv1.Run, error) {
	run := &pawlv1.Run{
		RunId: v.ID.String(), Status: runStatusProto(machine.RunStatus(v.Status)),
		StepsDone: v.StepsDone, StepsTotal: v.StepsTotal, CostSoFarUsd: v.CostUsd.String(),
		Pipeline: v.Pipeline + ":" + v.PipelineVersion, EntityId: v.EntityID, Class: classProto(machine.Class(v.Class)),
		Shards: shardsProto(v), Reason: v.Reason, Error: v.Error, Blockage: blockageProto(v), Undo: v.Undo,
		CreatedAt: timestamppb.New(v.CreatedAt), StartedAt: timestampOrNil(v.StartedAt),
		FinishedAt: timestampOrNil(v.FinishedAt), DeadlineAt: timestamppb.New(v.DeadlineAt),
		NotBefore: timestampOrNil(v.NotBefore), UpdatedAt: timestamppb.New(v.UpdatedAt), Etag: strconv.FormatInt(v.Version, 10),
	}
	if v.CurrentStep != "" {
		run.CurrentStep = &v.CurrentStep
	}
	if v.DocumentID != nil {
		run.DocumentId = v.DocumentID.String()
	}
	if v.BatchID != nil {
		run.BatchId, run.CustomId = v.BatchID.String(), v.CustomID
	}
	if v.BudgetUsd != nil {
		run.BudgetUsd = proto.String(v.BudgetUsd.String())
	}
	if err := json.Unmarshal(v.Labels, &run.Labels); err != nil {
		return nil, fmt.Errorf("labels of run %s: %w", v.ID, err)
	}
	return run, nil
}

// shardsProto says how far the current step is, when it is a fan-out.
func shardsProto(v *store.RunView) *pawlv1.ShardCount {
	if v.Head == nil {
		return nil
	}
	step, open := v.Head.CurrentStep(v.Plan)
	if !open || v.Head.State.Heads[step].Shards.Total == 0 {
		return nil
	}
	shards := v.Head.State.Heads[step].Shards
	return &pawlv1.ShardCount{Done: int32(shards.Done + shards.Skipped + shards.Failed), Total: int32(shards.Total)}
}

func blockageProto(v *store.RunView) *pawlv1.Blockage {
	b := v.Blockage
	if b == nil {
		return nil
	}
	shown := &pawlv1.Blockage{
		Code: string(b.Code), Since: timestampUnlessZero(b.Since), Sentence: b.Sentence, SuggestedAction: b.Action,
		AutoResolvesAt: timestampUnlessZero(b.ResolvesAt), Then: b.Then, Evidence: b.Evidence,
	}
	if b.Key.Step != machine.AllSteps {
		shown.Step = v.Plan.Steps[b.Key.Step].Name
	}
	return shown
}

func timestampUnlessZero(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func timestampOrNil(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}
