package inspect

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"pawl.internal/services/internal/checkup"
	"pawl.internal/services/orchestrator"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// stateCheck holds the heads of runs against their rows and results.
func stateCheck() (*checkup.Check, error) {
	compile, err := orchestrator.NewCompile()
	if err != nil {
		return nil, err
	}
	inspector := store.NewInspector(compile)
	find := func(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) ([]checkup.Finding, error) {
		runs, err := inspector.Read(ctx, tx, ids)
		if err != nil {
			return nil, err
		}
		var found []checkup.Finding
		for _, r := range runs {
			for _, wrong := range contradictions(r) {
				found = append(found, checkup.Finding{Key: r.ID.String() + "/" + wrong, Run: r.ID, Detail: wrong})
			}
		}
		return found, nil
	}
	return &checkup.Check{
		Name: "run-state",
		Promise: "I01: the head of a run agrees with its steps: each finished step has one result, each live one a row, " +
			"and steps_done counts the finished",
		Means:    "the run may repeat a finished step, or wait for one that nobody executes",
		Remedy:   "report the runs: it is a fault of the program's; `pawl runs cancel` ends them",
		Severity: checkup.Broken, Find: checkup.EachRun(find),
	}, nil
}

// contradictions says what does not agree within a stored run.
func contradictions(r *store.StoredRun) []string {
	if r.Err != nil {
		return []string{"cannot be read: " + r.Err.Error()}
	}
	var wrong []string
	for _, stranger := range r.Strangers {
		wrong = append(wrong, "its pipeline has no such step: "+stranger)
	}
	live, results := map[machine.Key]machine.Live{}, map[machine.Key]machine.Result{}
	for _, l := range r.Live {
		live[l.Key] = l
	}
	for _, s := range r.Results {
		results[s.Key] = s
	}
	done := 0
	for i := range r.Plan.Steps {
		if i < r.Plan.Total && finished(&r.Head.State.Heads[i]) {
			done++
		}
		key := machine.Key{Step: i, Shard: machine.Whole}
		row, isLive := live[key]
		result, hasResult := results[key]
		if what := contradiction(&r.Head.State.Heads[i], row, isLive, result, hasResult); what != "" {
			wrong = append(wrong, fmt.Sprintf("step %s: %s", r.Plan.Steps[i].Name, what))
		}
	}
	if done != r.Head.StepsDone {
		wrong = append(wrong, fmt.Sprintf("steps_done is %d, and %d steps are finished", r.Head.StepsDone, done))
	}
	return wrong
}

func finished(h *machine.Head) bool {
	return h.Phase == machine.PhaseDone || h.Phase == machine.PhaseSkipped || h.Phase == machine.PhaseFailed && h.Tolerated
}

// contradiction says what the head of a step says otherwise than its row or result.
func contradiction(h *machine.Head, row machine.Live, isLive bool, result machine.Result, hasResult bool) string {
	wantsRow := h.Phase == machine.PhaseLive || h.Phase == machine.PhaseExpanded || h.Phase == machine.PhaseNeedsReview
	wantsResult := h.Phase == machine.PhaseDone || h.Phase == machine.PhaseSkipped || h.Phase == machine.PhaseFailed
	switch {
	case wantsRow && !isLive:
		return fmt.Sprintf("is %s and has no row in core.step_live", h.Phase)
	case isLive && row.Status.Phase() != h.Phase:
		return fmt.Sprintf("is %s, and its row says %s", h.Phase, row.Status)
	case isLive && row.Generation != h.Generation:
		return fmt.Sprintf("is in generation %d, and its row in %d", h.Generation, row.Generation)
	case wantsResult && !hasResult:
		return fmt.Sprintf("is %s and has no result", h.Phase)
	case wantsResult && (result.Status.Phase() != h.Phase || result.Generation != h.Generation):
		return fmt.Sprintf("is %s in generation %d, and its result says %s in %d", h.Phase, h.Generation, result.Status, result.Generation)
	default:
		return ""
	}
}
