// Package inspect is what can be checked of the orchestrator's schema on a live system: the promises about runs and steps that
// a query can ask for. It reads only; what it can write is what is owed to the gateway, and
// what counts lack.
package inspect

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"pawl.internal/services/internal/checkup"
)

// Checks lists the checks of schema core.
func Checks() ([]*checkup.Check, error) {
	state, err := stateCheck()
	if err != nil {
		return nil, err
	}
	return slices.Concat([]*checkup.Check{state}, runChecks(), capChecks(), timeChecks(), recordChecks(), batchChecks()), nil
}

// unfinishedMost bounds the unfinished runs that are looked at.
const unfinishedMost = 100_000

// unfinishedRuns are found tenant by tenant, by skipping through the index of states.
const unfinishedRuns = `
WITH RECURSIVE t AS (
    (SELECT r.tenant FROM core.pipeline_run r ORDER BY r.tenant LIMIT 1)
    UNION ALL
    SELECT (SELECT r.tenant FROM core.pipeline_run r WHERE r.tenant > t.tenant ORDER BY r.tenant LIMIT 1)
    FROM t WHERE t.tenant IS NOT NULL
)
SELECT u.id FROM t
CROSS JOIN unnest(ARRAY['queued', 'running', 'needs_review', 'compensating']) AS s(status)
CROSS JOIN LATERAL (
    SELECT r.id FROM core.pipeline_run r WHERE r.tenant = t.tenant AND r.status = s.status ORDER BY r.id LIMIT $1
) u LIMIT $1`

const newestRuns = `SELECT id FROM core.pipeline_run ORDER BY id DESC LIMIT $1`

// Runs returns the runs to look at: the unfinished ones, and the newest of all.
func Runs(ctx context.Context, t *checkup.Target) (runs []uuid.UUID, err error) {
	err = t.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		unfinished, err := ids(ctx, tx, unfinishedRuns, unfinishedMost)
		if err != nil {
			return fmt.Errorf("list unfinished runs: %w", err)
		}
		newest, err := ids(ctx, tx, newestRuns, t.Recent)
		if err != nil {
			return fmt.Errorf("list runs: %w", err)
		}
		seen := make(map[uuid.UUID]bool, len(unfinished)+len(newest))
		for _, id := range append(unfinished, newest...) {
			if !seen[id] {
				seen[id] = true
				runs = append(runs, id)
			}
		}
		return nil
	})
	return runs, err
}

func ids(ctx context.Context, tx pgx.Tx, query string, most int) ([]uuid.UUID, error) {
	rows, err := tx.Query(ctx, query, most)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}
