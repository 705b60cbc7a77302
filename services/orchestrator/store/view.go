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

// liveShown is how many rows of a run are looked at to say why it does not move.
const liveShown = 20

// RunView is a run as readers see it.
type RunView struct {
	db.ReadRunRow
	// Head is the machine's part, and Plan that of its pipeline; nil where this build cannot read the pipeline.
	Head *machine.Run
	Plan *machine.Plan
	// Blockage is why the run does not move; nil when it moves or has ended.
	Blockage *machine.Blockage
}

// View adds what must be computed to the heads of a tenant's runs.
func (s *Store) View(ctx context.Context, tenant string, rows []db.ReadRunRow) ([]RunView, error) {
	plans, err := s.plans(ctx, tenant, rows)
	if err != nil {
		return nil, err
	}
	views := make([]RunView, len(rows))
	var open []uuid.UUID
	for i, row := range rows {
		views[i] = RunView{ReadRunRow: row}
		pipeline := plans[Digest(row.PipelineDigest)]
		if pipeline == nil {
			continue
		}
		views[i].Plan = pipeline.Plan(machine.Class(row.Class))
		if views[i].Head, err = headOf(&row); err != nil {
			return nil, err
		}
		if !views[i].Head.Status.Terminal() {
			open = append(open, row.ID)
		}
	}
	return views, s.addBlockages(ctx, views, open)
}

// plans returns the pipelines of the runs, as far as this build can read them.
func (s *Store) plans(ctx context.Context, tenant string, rows []db.ReadRunRow) (map[Digest]*Pipeline, error) {
	wanted := make(map[Digest]owned, 1)
	for _, row := range rows {
		wanted[Digest(row.PipelineDigest)] = owned{tenant: tenant, digest: Digest(row.PipelineDigest)}
	}
	found, _, err := s.pipelines.load(ctx, s.read(), wanted)
	return found, pg.Fault(err)
}

// headOf makes the machine's part of a run's row.
func headOf(row *db.ReadRunRow) (*machine.Run, error) {
	head := &machine.Run{
		Status: machine.RunStatus(row.Status), Reason: machine.Reason(row.Reason), Detail: row.Error,
		Class: machine.Class(row.Class), StepsDone: int(row.StepsDone), SpendEpoch: int(row.SpendEpoch), Seq: row.Seq,
		Undo: machine.Undo(row.Undo), CreatedAt: row.CreatedAt, NotBefore: timeOr0(row.NotBefore),
		StartedAt: timeOr0(row.StartedAt), FinishedAt: timeOr0(row.FinishedAt), DeadlineAt: row.DeadlineAt,
		PausedAt: timeOr0(row.PausedAt), CancelRequestedAt: timeOr0(row.CancelRequestedAt),
	}
	if err := head.State.UnmarshalJSON(row.State); err != nil {
		return nil, fmt.Errorf("run %s: %w", row.ID, err)
	}
	return head, nil
}

// addBlockages says of the open runs why they do not move.
func (s *Store) addBlockages(ctx context.Context, views []RunView, open []uuid.UUID) error {
	if len(open) == 0 {
		return nil
	}
	rows, err := s.read().ListLive(ctx, open, liveShown)
	if err != nil {
		return fmt.Errorf("read live steps: %w", pg.Fault(err))
	}
	byRun := map[uuid.UUID][]db.ListLiveRow{}
	now := s.clock.Now()
	for _, row := range rows {
		byRun[row.RunID], now = append(byRun[row.RunID], row), row.Now
	}
	for i := range views {
		if v := &views[i]; v.Head != nil && !v.Head.Status.Terminal() {
			v.block(byRun[v.ID], now)
		}
	}
	return nil
}

// block sets the run's blockage.
func (v *RunView) block(rows []db.ListLiveRow, now time.Time) {
	facts := machine.Facts{LostWorkers: map[machine.ID]time.Time{}}
	live := make([]machine.Live, 0, len(rows))
	for _, row := range rows {
		step, known := v.Plan.Index(row.Step)
		if !known {
			continue
		}
		if until := timeOr0(row.LeaseUntil); row.Status == string(machine.StepRunning) && until.Before(now) {
			facts.LostWorkers[idOr0(row.Worker)] = until
		}
		live = append(live, machine.Live{
			Key:        machine.Key{Step: step, Shard: int(row.Shard)},
			Generation: int(row.Generation), Status: machine.StepStatus(row.Status), Class: machine.Class(row.Class),
			Attempt: int(row.Attempt), Failures: int(row.Failures), Losses: int(row.Losses), ClaimNo: int(row.ClaimNo),
			Worker: idOr0(row.Worker), Reason: machine.Reason(row.Reason), DueAt: timeOr0(row.DueAt),
			ReadyAt: timeOr0(row.ReadyAt), QueuedAt: timeOr0(row.QueuedAt), ClaimedAt: timeOr0(row.ClaimedAt),
		})
	}
	if b, blocked := v.Head.Blockage(v.Plan, live, now, facts); blocked {
		v.Blockage = &b
	}
}
