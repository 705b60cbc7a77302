package orchestrator

import (
	"context"
	"errors"
	"strings"

	"github.com/google/uuid"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
	"pawl.internal/services/orchestrator/store/db"
)

// ListRunSteps returns a run's steps in pipeline order, each followed by its shards.
func (s *Service) ListRunSteps(ctx context.Context, req *systemv1.ListRunStepsRequest) (*systemv1.ListRunStepsResponse, error) {
	id, err := uuid.Parse(req.GetRunId())
	if err != nil {
		return nil, noRun(req.GetRunId())
	}
	row, err := s.store.ReadRun(ctx, req.GetTenant(), id)
	if errors.Is(err, store.ErrNoRun) {
		return nil, noRun(req.GetRunId())
	}
	if err != nil {
		return nil, err
	}
	views, err := s.store.View(ctx, req.GetTenant(), []db.ReadRunRow{*row})
	if err != nil {
		return nil, err
	}
	rows, err := s.store.ListSteps(ctx, id)
	if err != nil {
		return nil, err
	}
	return &systemv1.ListRunStepsResponse{Steps: stepsProto(&views[0], rows)}, nil
}

// stepsProto puts the rows into the order of the pipeline, and adds the steps that have no row: those that have not begun,
// and those that were cancelled before they did.
func stepsProto(v *store.RunView, rows []store.StepRow) []*pawlv1.RunStep {
	byStep := map[string][]*pawlv1.RunStep{}
	for i := range rows {
		byStep[rows[i].Step] = append(byStep[rows[i].Step], stepProto(&rows[i]))
	}
	var steps []*pawlv1.RunStep
	if v.Plan == nil {
		for _, of := range byStep {
			steps = append(steps, of...)
		}
		return steps
	}
	for i, step := range v.Plan.Steps {
		of := byStep[step.Name]
		if len(of) == 0 || of[0].Shard != nil {
			if i >= v.Plan.Total {
				continue // an undo that was never needed
			}
			head := v.Head.State.Heads[i]
			of = append([]*pawlv1.RunStep{{
				Name: step.Name, Status: stepStatusProto(machine.StepStatus(head.Phase)), Generation: int32(head.Generation),
				CostUsd: "0",
			}}, of...)
		}
		steps = append(steps, of...)
	}
	return steps
}

func stepProto(row *store.StepRow) *pawlv1.RunStep {
	step := &pawlv1.RunStep{
		Name: row.Step, Shard: shardProto(row.Shard), Status: stepStatusProto(machine.StepStatus(row.Status)),
		Attempt: row.Attempt, InputTokens: row.InputTokens, OutputTokens: row.OutputTokens, CostUsd: row.CostUsd.String(),
		Reason: row.Reason, Error: row.Error, QueuedAt: timestampOrNil(row.QueuedAt), StartedAt: timestampOrNil(row.StartedAt),
		FinishedAt: timestampOrNil(row.FinishedAt), Generation: row.Generation,
	}
	if row.Document != nil {
		step.Output = &pawlv1.JsonValue{Json: string(row.Document)}
	}
	if row.Worker != nil {
		step.Worker = row.Worker.String()
	}
	if status := machine.StepStatus(row.Status); status == machine.StepBackoff || status == machine.StepWaiting {
		step.NextAt = timestampOrNil(row.DueAt)
	}
	return step
}

func stepStatusProto(s machine.StepStatus) pawlv1.StepStatus {
	return pawlv1.StepStatus(pawlv1.StepStatus_value["STEP_STATUS_"+strings.ToUpper(string(s))])
}
