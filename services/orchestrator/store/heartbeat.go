package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store/db"
)

// Beat renews the lease of a runner, and with it that of all it holds.
type Beat struct {
	Runner uuid.UUID
	// Description is the runner's host and process, for people.
	Description string
	// InteractiveSlots and BatchSlots say how many steps of each class it executes at once.
	InteractiveSlots, BatchSlots int
	// PermitWaits are the steps that wait for a permit.
	PermitWaits []PermitWait
}

// Beat waits until the renewed lease is on disk. Beats that come meanwhile share one statement.
func (s *Store) Beat(ctx context.Context, b *Beat) error { return s.beats.Submit(ctx, b) }

// commitBeats writes the newest beat of each runner, in order, so that replicas never wait for each other in a circle.
func (s *Store) commitBeats(ctx context.Context, _ int, beats []*Beat) error {
	newest := make(map[uuid.UUID]*Beat, len(beats))
	for _, b := range beats {
		newest[b.Runner] = b
	}
	p := db.PutRunnersParams{Lease: s.cfg.Lease}
	for id := range newest {
		p.Instances = append(p.Instances, id)
	}
	slices.SortFunc(p.Instances, compareIDs)
	for _, id := range p.Instances {
		b := newest[id]
		p.Descriptions = append(p.Descriptions, b.Description)
		p.InteractiveSlots = append(p.InteractiveSlots, int32(b.InteractiveSlots))
		p.BatchSlots = append(p.BatchSlots, int32(b.BatchSlots))
		waits, err := storedWaits(b.PermitWaits)
		if err != nil {
			return fmt.Errorf("permit waits of runner %s: %w", id, err)
		}
		p.PermitWaits = append(p.PermitWaits, waits)
	}
	if err := db.New(s.control).PutRunners(ctx, p); err != nil {
		return fmt.Errorf("renew leases: %w", pg.Fault(err))
	}
	return nil
}

// RunnerIsAlive reports whether the runner has a lease that has not run out.
func (s *Store) RunnerIsAlive(ctx context.Context, runner uuid.UUID) (bool, error) {
	alive, err := db.New(s.control).RunnerIsAlive(ctx, runner)
	return alive, pg.Fault(err)
}

// EndLease ends the lease of a runner that leaves. What it still holds is taken from it as from a dead one.
func (s *Store) EndLease(ctx context.Context, runner uuid.UUID) error {
	return pg.Fault(db.New(s.control).EndLease(ctx, runner))
}

// Holding is the stored state of a step that a runner says it holds.
type Holding struct {
	Generation int
	Status     machine.StepStatus
	Fence      machine.ID
	// DueIn is the time left until the hard timeout.
	DueIn time.Duration
}

// Holdings reads the live rows of the steps, without locks. Those that are not live are missing. The keys are the refs
// with generation 0.
func (s *Store) Holdings(ctx context.Context, refs []Ref) (map[Ref]Holding, error) {
	var p db.ReadHoldsParams
	for _, ref := range refs {
		p.RunIds, p.Steps, p.Shards = append(p.RunIds, ref.RunID), append(p.Steps, ref.Step), append(p.Shards, int32(ref.Shard))
	}
	rows, err := db.New(s.control).ReadHolds(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("read what runners hold: %w", pg.Fault(err))
	}
	found := make(map[Ref]Holding, len(rows))
	for _, row := range rows {
		found[Ref{RunID: row.RunID, Step: row.Step, Shard: int(row.Shard)}] = Holding{
			Generation: int(row.Generation), Status: machine.StepStatus(row.Status), Fence: idOr0(row.Fence),
			DueIn: timeOr0(row.DueAt).Sub(row.Now),
		}
	}
	return found, nil
}

// UnlistedSteps returns steps that the runner claimed longer ago than an age, but not before a bound, and does not list: it
// has never got the answer to its claim. Until says when those were claimed that this look has reached.
func (s *Store) UnlistedSteps(
	ctx context.Context, runner uuid.UUID, claimedFrom time.Time, age time.Duration, listed []Ref,
) (lost []LostStep, until time.Time, err error) {
	p := db.FindUnlistedStepsParams{Worker: runner, ClaimedFrom: claimedFrom, Age: age}
	for _, ref := range listed {
		p.RunIds, p.Steps, p.Shards = append(p.RunIds, ref.RunID), append(p.Steps, ref.Step), append(p.Shards, int32(ref.Shard))
	}
	rows, err := db.New(s.control).FindUnlistedSteps(ctx, p)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("find unlisted steps: %w", pg.Fault(err))
	}
	for _, row := range rows {
		if row.Step == "" {
			until = row.At.Add(-age)
			continue
		}
		lost = append(lost, LostStep{Ref: refOf(row.RunID, row.Step, row.Shard, row.Generation), Fence: machine.ID(row.Fence)})
	}
	return lost, until, nil
}
