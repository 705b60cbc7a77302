package orchestrator

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// ListRunSteps returns a page of a run's steps in pipeline order, each followed by its shards. The page token is the place of
// the last step or shard.
func (s *Service) ListRunSteps(ctx context.Context, req *systemv1.ListRunStepsRequest) (*systemv1.ListRunStepsResponse, error) {
	id, err := uuid.Parse(req.GetRunId())
	if err != nil {
		return nil, noRun(req.GetRunId())
	}
	after, err := readPlace(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	most := pageSize(req.GetPageSize())
	run, rows, err := s.store.ListSteps(ctx, req.GetTenant(), id,
		store.StepFilter{AfterStep: after.step, AfterShard: after.shard, Most: most + 1})
	if err != nil {
		return nil, refusal(req.GetRunId(), err)
	}
	steps := placedSteps(run, rows, after, len(rows) > most)
	page := &systemv1.ListRunStepsResponse{}
	if len(steps) > most {
		steps = steps[:most]
		page.NextPageToken = steps[most-1].place.token()
	}
	for _, step := range steps {
		page.Steps = append(page.Steps, step.shown)
	}
	return page, nil
}

// place is where a step or shard stands in the list of a run's steps.
type place struct{ step, shard int }

func (p place) after(other place) bool {
	return p.step > other.step || p.step == other.step && p.shard > other.shard
}

func (p place) token() string { return fmt.Sprintf("%d.%d", p.step, p.shard) }

// readPlace reads a page token; the empty one stands before everything.
func readPlace(token string) (p place, err error) {
	if token == "" {
		return place{step: -1, shard: store.Whole}, nil
	}
	step, shard, _ := strings.Cut(token, ".")
	if p.step, err = strconv.Atoi(step); err != nil {
		return p, badPageToken()
	}
	if p.shard, err = strconv.Atoi(shard); err != nil {
		return p, badPageToken()
	}
	return p, nil
}

// placedStep is a step or shard as it is shown, and its place.
type placedStep struct {
	place
	shown *pawlv1.RunStep
}

// placedSteps adds to the rows the steps that have none: those that have not begun, and those that were cancelled. When there
// are more rows than these, it goes no further than they do. Where this build cannot read the pipeline, the rows stand alone.
func placedSteps(run *store.RunView, rows []store.StepRow, after place, more bool) []placedStep {
	var steps []placedStep
	next := 0
	if run.Plan != nil {
		for i, step := range run.Plan.Steps {
			if more && next == len(rows) {
				break
			}
			whole := place{step: i, shard: store.Whole}
			hasRow := next < len(rows) && placeOfRow(&rows[next]) == whole
			if !hasRow && !run.Plan.IsUndo(i) && whole.after(after) {
				steps = append(steps, placedStep{whole, withoutRow(step.Name, &run.Head.State.Heads[i])})
			}
			for ; next < len(rows) && int(rows[next].Ordinal) == i; next++ {
				steps = append(steps, placedStep{placeOfRow(&rows[next]), stepProto(&rows[next])})
			}
		}
		return steps
	}
	for i := range rows {
		steps = append(steps, placedStep{placeOfRow(&rows[i]), stepProto(&rows[i])})
	}
	return steps
}

func placeOfRow(row *store.StepRow) place {
	return place{step: int(row.Ordinal), shard: int(row.Shard)}
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
