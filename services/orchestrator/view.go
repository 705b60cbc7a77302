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
	shown, err := runProto(row)
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

// runProto shows the head of a run.
func runProto(row *db.ReadRunRow) (*pawlv1.Run, error) {
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
	return run, nil
}

func timestampOrNil(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}
