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
		Promise: "I01: the head of a run agrees with its steps as the machine's rules say: each finished step has one result, each live " +
			"one a row, and steps_done counts the finished",
		Means:    "the run may repeat a finished step, or wait for one that nobody executes",
		Remedy:   "report the runs: it is a fault of the program's; `pawl runs cancel` ends them",
		Severity: checkup.Broken, Find: checkup.EachRun(find),
	}, nil
}

// contradictions says what is wrong within a stored run: what the machine's own rules say, and ends of steps without a result.
func contradictions(r *store.StoredRun) []string {
	if r.Err != nil {
		return []string{"cannot be read: " + r.Err.Error()}
	}
	var wrong []string
	for _, stranger := range r.Strangers {
		wrong = append(wrong, "its pipeline has no such step: "+stranger)
	}
	for _, v := range machine.Check(r.Plan, &r.Head, machine.NewRows(r.Live, r.Results)) {
		place := ""
		if v.Key.Step != machine.AllSteps {
			place = fmt.Sprintf(" step %s[%d]:", r.Plan.Steps[v.Key.Step].Name, v.Key.Shard)
		}
		wrong = append(wrong, fmt.Sprintf("%s:%s %s", v.Rule, place, v.Detail))
	}
	return append(wrong, withoutResult(r)...)
}

// withoutResult names the steps that have ended by themselves and whose result of that generation is not stored.
func withoutResult(r *store.StoredRun) []string {
	stored := map[machine.Key]machine.Phase{}
	for _, s := range r.Results {
		stored[s.Key] = s.Status.Phase()
	}
	var wrong []string
	for i := range r.Head.State.Heads {
		phase := r.Head.State.Heads[i].Phase
		ended := phase == machine.PhaseDone || phase == machine.PhaseSkipped || phase == machine.PhaseFailed
		if result := stored[machine.Key{Step: i, Shard: machine.Whole}]; ended && result != phase {
			wrong = append(wrong, fmt.Sprintf("step %s is %s, and its result says %q", r.Plan.Steps[i].Name, phase, result))
		}
	}
	return wrong
}
