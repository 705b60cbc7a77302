package bench

import (
	"context"
	"fmt"
	"time"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/sdk"
)

// idle measures an idle system: how long after its submit a run's first step starts, and how long after the end of one
// step the next starts, by PostgreSQL's clock; and what a step costs in durable commits.
func (s *system) idle(ctx context.Context, pipeline string, runs int) ([]row, error) {
	ids := make([]string, runs)
	before, err := s.syncs(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	for i := range ids {
		created, err := s.client.CreateRun(ctx, &pawlv1.CreateRunRequest{
			Pipeline: pipeline, Input: sdk.JSON(fmt.Sprintf(`{"n": %d}`, i)),
		})
		if err != nil {
			return nil, err
		}
		ids[i] = created.GetRunId()
		if run, err := s.client.Wait(ctx, ids[i]); err != nil || run.GetStatus() != pawlv1.RunStatus_RUN_STATUS_DONE {
			return nil, fmt.Errorf("run %s: %v %s: %w", ids[i], run.GetStatus(), run.GetError(), err)
		}
	}
	took := time.Since(began)
	after, err := s.syncs(ctx)
	if err != nil {
		return nil, err
	}
	first, err := s.durations(ctx, firstStarts, ids)
	if err != nil {
		return nil, err
	}
	next, err := s.durations(ctx, nextStarts, ids)
	if err != nil {
		return nil, err
	}
	steps := float64(3 * runs)
	return []row{
		{"idle, " + pipeline + ": submit to first step", first.String(), ""},
		{"idle, " + pipeline + ": step to next step", next.String(), ""},
		{
			"idle, " + pipeline + ": WAL syncs a step, submit included", fmt.Sprintf("%.2f", float64(after-before)/steps),
			fmt.Sprintf("of them about %.2f are the idle system's own", s.idleSyncs*took.Seconds()/steps),
		},
	}, nil
}

const firstStarts = `
SELECT extract(epoch FROM min(s.started_at) - r.created_at)::float8
FROM core.pipeline_run r JOIN core.pipeline_step_result s ON s.run_id = r.id
WHERE r.id = ANY($1) GROUP BY r.id, r.created_at`

const nextStarts = `
SELECT extract(epoch FROM s.started_at - s.before)::float8
FROM (SELECT started_at, lag(finished_at) OVER (PARTITION BY run_id ORDER BY started_at) AS before
      FROM core.pipeline_step_result WHERE run_id = ANY($1)) s
WHERE s.before IS NOT NULL`

// durations runs a query that gives seconds.
func (s *system) durations(ctx context.Context, query string, ids []string) (sample, error) {
	rows, err := s.db.Query(ctx, query, ids)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found sample
	for rows.Next() {
		var seconds float64
		if err := rows.Scan(&seconds); err != nil {
			return nil, err
		}
		found = append(found, time.Duration(seconds*float64(time.Second)))
	}
	return found, rows.Err()
}

// syncs is how often PostgreSQL has forced its log to disk.
func (s *system) syncs(ctx context.Context) (n int64, err error) {
	err = s.db.QueryRow(ctx, `SELECT wal_sync FROM pg_stat_wal`).Scan(&n)
	return n, err
}

// measureIdleSyncs learns how often the log is forced to disk in a second in which nothing is asked.
func (s *system) measureIdleSyncs(ctx context.Context) error {
	const quiet = 5 * time.Second
	before, err := s.syncs(ctx)
	if err != nil {
		return err
	}
	select {
	case <-time.After(quiet):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := s.syncs(ctx)
	s.idleSyncs = float64(after-before) / quiet.Seconds()
	return err
}
