package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store/db"
)

// kept is how long the rows of runners and replicas that are gone are kept.
const kept = time.Minute

// Due is what was due when Due looked.
type Due struct {
	// Now is PostgreSQL's time then.
	Now time.Time
	// Steps and Runs come oldest first.
	Steps []DueStep
	Runs  []OverdueRun
	// Lost are steps that are RUNNING with runners whose leases have run out.
	Lost []LostStep
}

// DueStep is a step whose timer has run out.
type DueStep struct {
	Ref
	Status machine.StepStatus
	// Fence is the claim's, if the step is RUNNING.
	Fence machine.ID
	At    time.Time
}

// OverdueRun is a run that has used up its time.
type OverdueRun struct {
	ID uuid.UUID
	At time.Time
}

// LostStep is a step that is RUNNING with a runner that is gone, or that does not know of it.
type LostStep struct {
	Ref
	Fence machine.ID
}

// The rows of FindDue that are not timers of steps.
const (
	dueNow      = "now"
	dueDeadline = "deadline"
	dueLost     = "lost"
)

// Due looks for everything whose time has come, at most that many of each kind: timers of steps since one bound, deadlines
// of runs since another, and steps of runners that are gone.
func (s *Store) Due(ctx context.Context, stepsFrom, runsFrom time.Time, most int) (Due, error) {
	rows, err := db.New(s.control).FindDue(ctx, db.FindDueParams{StepsFrom: stepsFrom, RunsFrom: runsFrom, Most: int32(most)})
	if err != nil {
		return Due{}, fmt.Errorf("find what is due: %w", pg.Fault(err))
	}
	var due Due
	for _, row := range rows {
		ref, fence := refOf(row.RunID, row.Step, row.Shard, row.Generation), machine.ID(row.Fence)
		switch row.What {
		case dueNow:
			due.Now = row.DueAt
		case dueDeadline:
			due.Runs = append(due.Runs, OverdueRun{ID: row.RunID, At: row.DueAt})
		case dueLost:
			due.Lost = append(due.Lost, LostStep{Ref: ref, Fence: fence})
		default:
			due.Steps = append(due.Steps, DueStep{Ref: ref, Status: machine.StepStatus(row.What), Fence: fence, At: row.DueAt})
		}
	}
	return due, nil
}

// Line is how steps of a class wait in their stream.
type Line struct {
	// From is the bound before which no step needs to be looked for.
	From time.Time
	// Patience is how long a step may be QUEUED before its entry is taken for lost.
	Patience time.Duration
}

// LateEntries returns steps that have been QUEUED for longer than is usual in their class, at most that many of each, and
// PostgreSQL's time when it looked.
func (s *Store) LateEntries(ctx context.Context, lines map[machine.Class]Line, most int) (map[machine.Class][]Ref, time.Time, error) {
	p := db.FindLateEntriesParams{Most: int32(most)}
	for class, line := range lines {
		p.Classes, p.QueuedFrom = append(p.Classes, string(class)), append(p.QueuedFrom, line.From)
		p.Patience = append(p.Patience, line.Patience)
	}
	rows, err := db.New(s.control).FindLateEntries(ctx, p)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("find late entries: %w", pg.Fault(err))
	}
	var now time.Time
	late := map[machine.Class][]Ref{}
	for _, row := range rows {
		if row.Class == "" {
			now = row.At
			continue
		}
		class := machine.Class(row.Class)
		late[class] = append(late[class], refOf(row.RunID, row.Step, row.Shard, row.Generation))
	}
	return late, now, nil
}

// LivingRunners lists the runners that have a lease, and tells PostgreSQL's time then.
func (s *Store) LivingRunners(ctx context.Context) ([]uuid.UUID, time.Time, error) {
	row, err := db.New(s.control).ReadLivingRunners(ctx)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read runners: %w", pg.Fault(err))
	}
	return row.Instances, row.Now, nil
}

// ShowReplica writes that a replica of the orchestrator lives, and returns PostgreSQL's time; it fails when PostgreSQL takes
// no writes.
func (s *Store) ShowReplica(ctx context.Context, instance uuid.UUID) (time.Time, error) {
	now, err := db.New(s.control).PutReplica(ctx, instance)
	if err != nil {
		return time.Time{}, fmt.Errorf("show that the replica lives: %w", pg.Fault(err))
	}
	return now, nil
}

// RemoveReplica removes the row of a replica that leaves.
func (s *Store) RemoveReplica(ctx context.Context, instance uuid.UUID) error {
	return pg.Fault(db.New(s.control).DeleteReplica(ctx, instance))
}

// Tidy removes the rows of runners and replicas that are gone.
func (s *Store) Tidy(ctx context.Context) error {
	q := db.New(s.control)
	return pg.Fault(errors.Join(q.DeleteDeadRunners(ctx, kept), q.DeleteDeadReplicas(ctx, kept)))
}

func refOf(run uuid.UUID, step string, shard, generation int32) Ref {
	return Ref{RunID: run, Step: step, Shard: int(shard), Generation: int(generation)}
}
