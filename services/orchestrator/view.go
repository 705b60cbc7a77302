package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
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
	"pawl.internal/services/orchestrator/store/db"
)

// readRun returns a tenant's run as it is shown, with its result if it has one.
func (s *Service) readRun(ctx context.Context, tenant, run string) (*systemv1.GetRunResponse, error) {
	id, err := uuid.Parse(run)
	if err != nil {
		return nil, noRun(run)
	}
	row, err := s.store.ReadRun(ctx, tenant, id)
	if errors.Is(err, store.ErrNoRun) {
		return nil, noRun(run)
	}
	if err != nil {
		return nil, err
	}
	views, err := s.store.View(ctx, tenant, []db.ReadRunRow{*row})
	if err != nil {
		return nil, err
	}
	shown, err := runProto(&views[0])
	if err != nil {
		return nil, err
	}
	if row.Status == string(machine.RunDone) {
		result, err := s.store.ReadOutput(ctx, id, row.OutputStep)
		if err != nil {
			return nil, err
		}
		shown.Result = &pawlv1.JsonValue{Json: string(result)}
	}
	return &systemv1.GetRunResponse{Run: shown, Kind: row.Kind}, nil
}

// runProto shows a run without its result.
func runProto(row *store.RunView) (*pawlv1.Run, error) {
	run := &pawlv1.Run{
		RunId: row.ID.String(), Status: runStatusProto(machine.RunStatus(row.Status)),
		StepsDone: row.StepsDone, StepsTotal: row.StepsTotal, CostSoFarUsd: row.CostUsd.String(),
		Pipeline: row.Pipeline + ":" + row.PipelineVersion, EntityId: row.EntityID, Class: classProto(machine.Class(row.Class)),
		Reason: row.Reason, Error: row.Error, Undo: row.Undo,
		CreatedAt: timestamppb.New(row.CreatedAt), StartedAt: timestampOrNil(row.StartedAt),
		FinishedAt: timestampOrNil(row.FinishedAt), DeadlineAt: timestamppb.New(row.DeadlineAt),
		UpdatedAt: timestamppb.New(row.UpdatedAt), Etag: strconv.FormatInt(row.Version, 10),
	}
	if row.CurrentStep != "" {
		run.CurrentStep = &row.CurrentStep
	}
	if row.DocumentID != nil {
		run.DocumentId = row.DocumentID.String()
	}
	if row.BudgetUsd != nil {
		run.BudgetUsd = proto.String(row.BudgetUsd.String())
	}
	if err := json.Unmarshal(row.Labels, &run.Labels); err != nil {
		return nil, fmt.Errorf("labels of run %s: %w", row.ID, err)
	}
	run.Shards, run.Blockage = shardsProto(row), blockageProto(row)
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
		AutoResolvesAt: timestampUnlessZero(b.ResolvesAt), Then: b.Then,
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
