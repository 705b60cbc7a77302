package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store/db"
)

// kept is how long the rows of runners and replicas that are gone are kept, for people who look what was there.
const kept = time.Hour

// DueStep is a step whose timer has run out.
type DueStep struct {
	Ref
	Status machine.StepStatus
	Fence  machine.ID
	DueAt  time.Time
}

// DueSteps returns the steps whose timers have run out since bound, the oldest first, at most that many.
func (s *Store) DueSteps(ctx context.Context, bound time.Time, most int) ([]DueStep, error) {
	rows, err := db.New(s.control).FindDueSteps(ctx, &bound, int32(most))
	if err != nil {
		return nil, fmt.Errorf("find due steps: %w", pg.Fault(err))
	}
	due := make([]DueStep, len(rows))
	for i, row := range rows {
		due[i] = DueStep{
			Ref:    refOf(row.RunID, row.Step, row.Shard, row.Generation),
			Status: machine.StepStatus(row.Status), Fence: idOr0(row.Fence), DueAt: row.DueAt,
		}
	}
	return due, nil
}

// OverdueRun is a run that has used up its time.
type OverdueRun struct {
	ID         uuid.UUID
	DeadlineAt time.Time
}

// OverdueRuns returns the runs whose deadlines have passed since bound, the oldest first, at most that many.
func (s *Store) OverdueRuns(ctx context.Context, bound time.Time, most int) ([]OverdueRun, error) {
	rows, err := db.New(s.control).FindOverdueRuns(ctx, bound, int32(most))
	if err != nil {
		return nil, fmt.Errorf("find overdue runs: %w", pg.Fault(err))
	}
	overdue := make([]OverdueRun, len(rows))
	for i, row := range rows {
		overdue[i] = OverdueRun{ID: row.ID, DeadlineAt: row.DeadlineAt}
	}
	return overdue, nil
}

// LostStep is a step that is RUNNING with a runner that is gone, or that does not know of it.
type LostStep struct {
	Ref
	Fence machine.ID
}

// LostSteps returns steps whose runners' leases have run out, at most that many.
func (s *Store) LostSteps(ctx context.Context, most int) ([]LostStep, error) {
	rows, err := db.New(s.control).FindLostSteps(ctx, int32(most))
	if err != nil {
		return nil, fmt.Errorf("find lost steps: %w", pg.Fault(err))
	}
	lost := make([]LostStep, len(rows))
	for i, row := range rows {
		lost[i] = LostStep{Ref: refOf(row.RunID, row.Step, row.Shard, row.Generation), Fence: idOr0(row.Fence)}
	}
	return lost, nil
}

// UnlistedSteps returns steps that the runner claimed more than a lease ago and does not list: it has never got the answer
// to its claim.
func (s *Store) UnlistedSteps(ctx context.Context, runner uuid.UUID, listed []Ref) ([]LostStep, error) {
	p := db.FindUnlistedStepsParams{Worker: &runner, Lease: s.cfg.Lease}
	for _, ref := range listed {
		p.RunIds, p.Steps, p.Shards = append(p.RunIds, ref.RunID), append(p.Steps, ref.Step), append(p.Shards, int32(ref.Shard))
	}
	rows, err := db.New(s.control).FindUnlistedSteps(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("find unlisted steps: %w", pg.Fault(err))
	}
	lost := make([]LostStep, len(rows))
	for i, row := range rows {
		lost[i] = LostStep{Ref: refOf(row.RunID, row.Step, row.Shard, row.Generation), Fence: idOr0(row.Fence)}
	}
	return lost, nil
}

// LateEntries returns steps of the class that have been QUEUED for longer than patience, at most that many, and
// PostgreSQL's time when it looked.
func (s *Store) LateEntries(ctx context.Context, class machine.Class, patience time.Duration, most int) ([]Ref, time.Time, error) {
	rows, err := db.New(s.control).FindLateEntries(ctx, db.FindLateEntriesParams{
		Class: string(class), Patience: patience, Most: int32(most),
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("find late entries: %w", pg.Fault(err))
	}
	var now time.Time
	late := make([]Ref, len(rows))
	for i, row := range rows {
		late[i], now = refOf(row.RunID, row.Step, row.Shard, row.Generation), row.Now
	}
	return late, now, nil
}

// Runner is a step-runner that has, or had, a lease.
type Runner struct {
	Instance                     uuid.UUID
	InteractiveSlots, BatchSlots int
	Alive                        bool
}

// Runners lists the step-runners.
func (s *Store) Runners(ctx context.Context) ([]Runner, error) {
	rows, err := db.New(s.control).ReadRunners(ctx)
	if err != nil {
		return nil, fmt.Errorf("read runners: %w", pg.Fault(err))
	}
	runners := make([]Runner, len(rows))
	for i, row := range rows {
		runners[i] = Runner{
			Instance: row.Instance, InteractiveSlots: int(row.InteractiveSlots), BatchSlots: int(row.BatchSlots), Alive: row.Alive,
		}
	}
	return runners, nil
}

// ShowReplica writes that a replica of the orchestrator lives; it fails when PostgreSQL takes no writes.
func (s *Store) ShowReplica(ctx context.Context, instance uuid.UUID) error {
	return pg.Fault(db.New(s.control).PutReplica(ctx, instance))
}

// Tidy removes the rows of runners and replicas that are long gone, and of the replica itself when it leaves.
func (s *Store) Tidy(ctx context.Context, leaving uuid.UUID) error {
	q := db.New(s.control)
	if err := q.DeleteDeadRunners(ctx, kept); err != nil {
		return fmt.Errorf("remove dead runners: %w", pg.Fault(err))
	}
	if err := q.DeleteReplicas(ctx, leaving, kept); err != nil {
		return fmt.Errorf("remove dead replicas: %w", pg.Fault(err))
	}
	return nil
}

func refOf(run uuid.UUID, step string, shard, generation int32) Ref {
	return Ref{RunID: run, Step: step, Shard: int(shard), Generation: int(generation)}
}
