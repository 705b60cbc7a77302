package orchestrator

import (
	"context"
	"strings"

	"github.com/google/uuid"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// ListRunSteps returns a run's steps in pipeline order, each followed by its shards.
func (s *Service) ListRunSteps(ctx context.Context, req *systemv1.ListRunStepsRequest) (*systemv1.ListRunStepsResponse, error) {
	id, err := uuid.Parse(req.GetRunId())
	if err != nil {
		return nil, noRun(req.GetRunId())
	}
	run, rows, err := s.store.ListSteps(ctx, req.GetTenant(), id)
	if err != nil {
		return nil, refusal(req.GetRunId(), err)
	}
	return &systemv1.ListRunStepsResponse{Steps: stepsProto(run, rows)}, nil
}

// stepsProto puts the rows into the order of the pipeline, and adds the steps that have no row: those that have not begun,
// and those that were cancelled. Where this build cannot read the pipeline, the rows stand as they come.
func stepsProto(run *store.RunView, rows []store.StepRow) []*pawlv1.RunStep {
	shown := make([]*pawlv1.RunStep, len(rows))
	byStep := map[string][]*pawlv1.RunStep{}
	for i := range rows {
		shown[i] = stepProto(&rows[i])
		byStep[rows[i].Step] = append(byStep[rows[i].Step], shown[i])
	}
	if run.Plan == nil {
		return shown
	}
	var steps []*pawlv1.RunStep
	for i, step := range run.Plan.Steps {
		of := byStep[step.Name]
		if !run.Plan.IsUndo(i) && (len(of) == 0 || of[0].Shard != nil) {
			steps = append(steps, withoutRow(step.Name, &run.Head.State.Heads[i]))
		}
		steps = append(steps, of...)
	}
	return steps
}

// withoutRow shows a step of which only the run's head knows.
func withoutRow(name string, head *machine.Head) *pawlv1.RunStep {
	return &pawlv1.RunStep{
		Name: name, Status: stepStatusProto(machine.StepStatus(head.Phase)), Generation: int32(head.Generation), CostUsd: "0",
	}
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
