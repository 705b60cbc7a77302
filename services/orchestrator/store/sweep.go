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

// replicaLives is how long a replica of the orchestrator counts after it has last shown that it lives.
const replicaLives = 3 * time.Second

// Horizon says what Due looks for.
type Horizon struct {
	// Timers, HardTimeouts and Deadlines are the times, by PostgreSQL's clock, before which none need be looked for.
	Timers, HardTimeouts, Deadlines time.Time
	// Ahead is how far Due looks into the future.
	Ahead time.Duration
	// Most bounds the answers of each kind.
	Most int
	// Self is the replica that asks.
	Self uuid.UUID
}

// Due is what Due has found. Timers of each kind come in the order of their times.
type Due struct {
	// Now is PostgreSQL's time.
	Now time.Time
	// Replicas is how many replicas live, the one that asks included, and Rank how many of them are before it.
	Rank, Replicas int
	// Timers are those of steps in BACKOFF or WAITING, HardTimeouts those of RUNNING steps, Deadlines those of runs.
	Timers, HardTimeouts, Deadlines []Timer
	// Lost are steps that are RUNNING with runners whose leases have run out.
	Lost []LostStep
}

// Timer is the time at which something is to happen to a step or, without a step, to a run that is not to go on beyond it.
type Timer struct {
	Ref
	// Status is the state in which the step is; empty for a run.
	Status machine.StepStatus
	// Fence is the claim's, if the step is RUNNING.
	Fence machine.ID
	// At is by PostgreSQL's clock.
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

// Due looks for everything whose time has come or comes soon, and for steps of runners that are gone.
func (s *Store) Due(ctx context.Context, h Horizon) (Due, error) {
	rows, err := db.New(s.control).FindDue(ctx, db.FindDueParams{
		TimersFrom: h.Timers, HardFrom: h.HardTimeouts, RunsFrom: h.Deadlines, Ahead: h.Ahead, Most: int32(h.Most),
		Self: h.Self, ReplicaLives: replicaLives,
	})
	if err != nil {
		return Due{}, fmt.Errorf("find what is due: %w", pg.Fault(err))
	}
	due := Due{Replicas: 1}
	for _, row := range rows {
		timer := Timer{
			Ref: refOf(row.RunID, row.Step, row.Shard, row.Generation), Status: machine.StepStatus(row.What),
			Fence: machine.ID(row.Fence), At: row.DueAt,
		}
		switch row.What {
		case dueNow:
			due.Now, due.Rank, due.Replicas = row.DueAt, int(row.Shard), max(1, int(row.Generation))
		case dueDeadline:
			due.Deadlines = append(due.Deadlines, Timer{Ref: OfRun(row.RunID), At: row.DueAt})
		case dueLost:
			due.Lost = append(due.Lost, LostStep{Ref: timer.Ref, Fence: timer.Fence})
		case string(machine.StepRunning):
			due.HardTimeouts = append(due.HardTimeouts, timer)
		default:
			due.Timers = append(due.Timers, timer)
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

// Tidy removes the rows of runners and replicas that are gone, and of runs that count against a key no more.
func (s *Store) Tidy(ctx context.Context) error {
	q := db.New(s.control)
	return pg.Fault(errors.Join(q.DeleteDeadRunners(ctx, kept), q.DeleteDeadReplicas(ctx, kept), q.DeleteEndedHolders(ctx)))
}

func refOf(run uuid.UUID, step string, shard, generation int32) Ref {
	return Ref{RunID: run, Step: step, Shard: int(shard), Generation: int(generation)}
}
