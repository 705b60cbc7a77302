package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store/db"
)

// The queries that a group asks by key, asked by run. They give the columns of ReadLive and ReadResults, in their order.
const (
	liveOfRuns = `
SELECT l.run_id, l.step, l.shard, l.generation, l.class, l.status, l.attempt, l.failures, l.losses, l.calls, l.ask_base,
       l.ambiguous_ok, l.unsure, l.claim_no, l.fence, l.last_fence, l.worker, l.reason, l.error,
       l.due_at, l.ready_at, l.queued_at, l.claimed_at
FROM (SELECT unnest($1::uuid[]) AS id) k
JOIN core.step_live l ON l.run_id = k.id`

	resultsOfRuns = `
SELECT r.run_id, r.step, r.shard, r.generation, r.status, r.reason, r.fence, r.attempt, r.claim_no, r.ask_base
FROM (SELECT unnest($1::uuid[]) AS id) k
JOIN core.pipeline_step_result r ON r.run_id = k.id`
)

// StoredRun is all that the machine must know of a run, as it is stored.
type StoredRun struct {
	ID      uuid.UUID
	Plan    *machine.Plan
	Head    machine.Run
	Live    []machine.Live
	Results []machine.Result
	// Strangers are rows of steps that the run's pipeline does not have.
	Strangers []string
	// Err says why the run makes no sense to this build; then nothing else is set.
	Err error
}

// Inspector reads whole runs, for those who check them. It writes nothing and is not safe for concurrent use.
type Inspector struct{ pipelines *pipelines }

// NewInspector returns an Inspector.
func NewInspector(compile Compile) *Inspector { return &Inspector{pipelines: newPipelines(compile)} }

// Read returns those of the runs that are stored, with all their rows, as the transaction sees them.
func (i *Inspector) Read(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) ([]*StoredRun, error) {
	query := db.New(tx)
	heads, err := query.ReadRuns(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read runs: %w", err)
	}
	runs := make(map[uuid.UUID]*StoredRun, len(heads))
	list := make([]*StoredRun, len(heads))
	wanted := make(map[Digest]owned, 1)
	for n := range heads {
		digest := Digest(heads[n].PipelineDigest)
		wanted[digest] = owned{tenant: heads[n].Tenant, digest: digest}
	}
	found, broken, err := i.pipelines.load(ctx, query, wanted)
	if err != nil {
		return nil, err
	}
	for n := range heads {
		digest := Digest(heads[n].PipelineDigest)
		list[n] = storedRun(&heads[n], found[digest], broken[digest])
		runs[heads[n].ID] = list[n]
	}
	if err := addLive(ctx, tx, ids, runs); err != nil {
		return nil, err
	}
	return list, addResults(ctx, tx, ids, runs)
}

func storedRun(row *db.ReadRunsRow, p *Pipeline, broken error) *StoredRun {
	if p == nil {
		return &StoredRun{ID: row.ID, Err: errors.Join(errors.New("its pipeline cannot be had"), broken)}
	}
	r, err := loadRun(row, p)
	if err != nil {
		return &StoredRun{ID: row.ID, Err: err}
	}
	if len(r.head.State.Heads) != len(r.plan.Steps) {
		return &StoredRun{ID: row.ID, Err: fmt.Errorf("its state has %d steps, and its pipeline %d",
			len(r.head.State.Heads), len(r.plan.Steps))}
	}
	return &StoredRun{ID: row.ID, Plan: r.plan, Head: r.head}
}

func addLive(ctx context.Context, tx pgx.Tx, ids []uuid.UUID, runs map[uuid.UUID]*StoredRun) error {
	rows, err := collect[db.ReadLiveRow](ctx, tx, liveOfRuns, ids)
	if err != nil {
		return fmt.Errorf("read steps: %w", err)
	}
	for n := range rows {
		r := runs[rows[n].RunID]
		if r == nil || r.Err != nil {
			continue
		}
		if _, known := r.Plan.Index(rows[n].Step); !known {
			r.Strangers = append(r.Strangers, "step_live "+rows[n].Step)
			continue
		}
		r.Live = append(r.Live, liveOf(&run{plan: r.Plan}, &rows[n]))
	}
	return nil
}

func addResults(ctx context.Context, tx pgx.Tx, ids []uuid.UUID, runs map[uuid.UUID]*StoredRun) error {
	rows, err := collect[db.ReadResultsRow](ctx, tx, resultsOfRuns, ids)
	if err != nil {
		return fmt.Errorf("read results: %w", err)
	}
	for _, row := range rows {
		r := runs[row.RunID]
		if r == nil || r.Err != nil {
			continue
		}
		step, known := r.Plan.Index(row.Step)
		if !known {
			r.Strangers = append(r.Strangers, "pipeline_step_result "+row.Step)
			continue
		}
		if r.Head.State.Heads[step].Generation != int(row.Generation) {
			continue // of before a rerun, as the machine leaves it out too
		}
		r.Results = append(r.Results, machine.Result{
			Key: machine.Key{Step: step, Shard: int(row.Shard)}, Generation: int(row.Generation),
			Status: machine.StepStatus(row.Status), Reason: machine.Reason(row.Reason), Fence: idOr0(row.Fence),
			Attempt: int(row.Attempt), ClaimNo: int(row.ClaimNo), AskBase: int(row.AskBase),
		})
	}
	return nil
}

func collect[T any](ctx context.Context, tx pgx.Tx, query string, args ...any) ([]T, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}
