package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store/db"
)

// liveShown is how many rows of a run are looked at to say why it does not move.
const liveShown = 20

// RunView is a run as readers see it.
type RunView struct {
	db.CoreRunView
	// Head is the machine's part, and Plan that of its pipeline; nil where this build cannot read the pipeline.
	Head *machine.Run
	Plan *machine.Plan
	// Blockage is why the run does not move; nil when it moves or has ended.
	Blockage *machine.Blockage
}

// snapshot lets several statements read the same state of the database: what a run's head says of its steps is true only
// of the rows of that moment.
func (s *Store) snapshot(ctx context.Context, read func(*db.Queries) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pg.Fault(pgx.BeginTxFunc(ctx, s.pool, options, func(tx pgx.Tx) error { return read(db.New(tx)) }))
}

// ReadRun returns a tenant's run, and its result if it is DONE, or ErrNoRun. Without ErrNoRun and without a result a run
// that is DONE has one that is too large for a message.
func (s *Store) ReadRun(ctx context.Context, tenant string, id uuid.UUID) (run *RunView, result []byte, err error) {
	err = s.snapshot(ctx, func(q *db.Queries) error {
		if run, err = s.readHead(ctx, q, tenant, id); err != nil {
			return err
		}
		if run.Status == string(machine.RunDone) {
			result, err = s.readResult(ctx, q, run)
			return err
		}
		return addBlockages(ctx, q, []*RunView{run})
	})
	return run, result, err
}

// readHead returns a tenant's run without its blockage.
func (s *Store) readHead(ctx context.Context, q *db.Queries, tenant string, id uuid.UUID) (*RunView, error) {
	row, err := q.ReadRun(ctx, id, tenant)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNoRun
	}
	if err != nil {
		return nil, fmt.Errorf("read run %s: %w", id, err)
	}
	views, err := s.views(ctx, q, tenant, []db.CoreRunView{row})
	if err != nil {
		return nil, err
	}
	return views[0], nil
}

// readResult returns the output of the step that gives the run's result; nil if it is too large for a message.
func (s *Store) readResult(ctx context.Context, q *db.Queries, run *RunView) ([]byte, error) {
	wanted := []Wanted{{Ref: OfRun(run.ID), Inputs: Inputs{Steps: []string{run.OutputStep}}}}
	if run.Bytes > InputsMax {
		sizes, err := measure(ctx, q, wanted)
		if err != nil || sizes[0] > InputsMax {
			return nil, err
		}
	}
	given, err := s.give(ctx, q, wanted)
	if err != nil {
		return nil, err
	}
	return given[0].Outputs[run.OutputStep], nil
}

// views adds the machine's view to the rows of a tenant's runs.
func (s *Store) views(ctx context.Context, q *db.Queries, tenant string, rows []db.CoreRunView) ([]*RunView, error) {
	wanted := make(map[Digest]owned, 1)
	for i := range rows {
		digest := Digest(rows[i].PipelineDigest)
		wanted[digest] = owned{tenant: tenant, digest: digest}
	}
	pipelines, _, err := s.pipelines.load(ctx, q, wanted)
	if err != nil {
		return nil, err
	}
	views := make([]*RunView, len(rows))
	for i := range rows {
		views[i] = &RunView{CoreRunView: rows[i]}
		pipeline := pipelines[Digest(rows[i].PipelineDigest)]
		if pipeline == nil {
			continue
		}
		views[i].Plan = pipeline.Plan(machine.Class(rows[i].Class))
		if views[i].Head, err = headOf(&rows[i]); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// headOf makes the machine's part of a run's row.
func headOf(row *db.CoreRunView) (*machine.Run, error) {
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

// addBlockages says of the runs that have not ended why they do not move.
func addBlockages(ctx context.Context, q *db.Queries, views []*RunView) error {
	var open []uuid.UUID
	for _, v := range views {
		if v.Head != nil && !v.Head.Status.Terminal() {
			open = append(open, v.ID)
		}
	}
	if len(open) == 0 {
		return nil
	}
	rows, err := q.ListLive(ctx, open, liveShown)
	if err != nil {
		return fmt.Errorf("read live steps: %w", err)
	}
	waits, err := permitWaits(ctx, q, rows)
	if err != nil {
		return err
	}
	live := make(map[uuid.UUID][]db.ListLiveRow, len(open))
	for _, row := range rows {
		live[row.RunID] = append(live[row.RunID], row)
	}
	for _, v := range views {
		if v.Head != nil {
			v.block(live[v.ID], waits)
		}
	}
	return nil
}

// block sets the run's blockage. Rows are those nearest to moving; waits are what runners have told of permits.
func (v *RunView) block(rows []db.ListLiveRow, waits map[claimKey]machine.PermitWait) {
	facts := machine.Facts{PermitWaits: map[machine.Key]machine.PermitWait{}, LostWorkers: map[machine.ID]time.Time{}}
	live := make([]machine.Live, 0, len(rows))
	now := v.UpdatedAt
	for i := range rows {
		row := &rows[i]
		step, known := v.Plan.Index(row.Step)
		if !known {
			continue
		}
		now = row.Now
		if until := timeOr0(row.LeaseUntil); row.Status == string(machine.StepRunning) && until.Before(now) {
			facts.LostWorkers[idOr0(row.Worker)] = until
		}
		claim := claimKey{refOf(row.RunID, row.Step, row.Shard, row.Generation), int(row.ClaimNo)}
		if wait, waits := waits[claim]; waits {
			facts.PermitWaits[machine.Key{Step: step, Shard: int(row.Shard)}] = wait
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
