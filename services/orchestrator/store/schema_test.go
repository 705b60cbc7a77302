package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
)

// The enumerations of the schema are those of the state machine.
func TestChecksAreTheMachinesConstants(t *testing.T) {
	b := setup(t)
	for column, want := range map[string][]string{
		"pipeline_run.status":         words(machine.AllRunStatuses()),
		"pipeline_run.class":          words(machine.AllClasses()),
		"pipeline_run.undo":           words(machine.AllUndos()),
		"step_live.status":            words(machine.LiveStatuses()),
		"step_live.class":             words(machine.AllClasses()),
		"pipeline_step_result.status": words(resultStatuses()),
		"callback_owed.event":         {machine.CallbackDone, machine.CallbackFailed, machine.CallbackCancelled, machine.CallbackNeedsReview, "batch.completed"},
		"batch.class":                 words(machine.AllClasses()),
	} {
		table, name, _ := strings.Cut(column, ".")
		var definition string
		b.scan(`SELECT pg_get_constraintdef(oid) FROM pg_constraint
			WHERE conrelid = ('core.' || $1)::regclass AND contype = 'c' AND conname = $1 || '_' || $2 || '_check'`,
			[]any{table, name}, &definition)
		var have []string
		for _, quoted := range regexp.MustCompile(`'([^']*)'`).FindAllStringSubmatch(definition, -1) {
			have = append(have, quoted[1])
		}
		slices.Sort(have)
		slices.Sort(want)
		require.Equal(t, want, have, column)
	}
}

// resultStatuses are the states in which a step or shard has a result.
func resultStatuses() []machine.StepStatus {
	return slices.DeleteFunc(machine.AllStepStatuses(), func(s machine.StepStatus) bool {
		return s.Live() && s != machine.StepNeedsReview
	})
}

func words[S ~string](list []S) []string {
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = string(s)
	}
	return texts
}

// No statement of the store reads a large table whole.
func TestPlansGoByKey(t *testing.T) {
	b := setup(t)
	b.fill(100_000)
	conn, err := b.pools[0].Acquire(t.Context())
	require.NoError(t, err)
	t.Cleanup(conn.Release)
	statements := generated(t)
	require.Greater(t, len(statements), 30)
	for _, sql := range statements {
		name, _, _ := strings.Cut(strings.TrimPrefix(sql, "-- name: "), " ")
		t.Run(name, func(t *testing.T) { requireKeys(t, explain(t, conn, sql)) })
	}
	b.requireCheap(t)
}

// requireKeys fails when a plan reads one of the large tables whole, or an index of one that is not partial.
func requireKeys(t *testing.T, plan string) {
	t.Helper()
	whole := regexp.MustCompile(`Seq Scan on (pipeline_run|step_live|pipeline_step_result|step_history|run_event|payload|idempotency|document|batch_count|batch_delta)`)
	require.NotRegexp(t, whole, plan, plan)
	keyed := regexp.MustCompile(`Scan using (\w+_pkey|pipeline_run_\w+) on (pipeline_run|step_live|pipeline_step_result|run_event|payload)`)
	lines := append(strings.Split(plan, "\n"), "")
	for i, line := range lines {
		if keyed.MatchString(line) {
			require.Contains(t, lines[i+1], "Index Cond", plan)
		}
	}
}

// generated returns the statements of package db that have plans.
func generated(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("db/*.sql.go")
	require.NoError(t, err)
	var statements []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile("(?s)= `(-- name: .*?)`").FindAllSubmatch(text, -1) {
			if sql := string(found[1]); !strings.Contains(sql, "SET LOCAL") {
				statements = append(statements, sql)
			}
		}
	}
	return statements
}

// explain returns the plan that the store's sessions use for a statement.
func explain(t *testing.T, conn *pgxpool.Conn, sql string) string {
	t.Helper()
	_, err := conn.Exec(t.Context(), "PREPARE checked AS "+sql)
	require.NoError(t, err, sql)
	defer func() {
		_, err := conn.Exec(t.Context(), "DEALLOCATE checked")
		require.NoError(t, err)
	}()
	var nulls []string
	for regexp.MustCompile(fmt.Sprintf(`\$%d\b`, len(nulls)+1)).MatchString(sql) {
		nulls = append(nulls, "NULL")
	}
	arguments := ""
	if len(nulls) > 0 {
		arguments = "(" + strings.Join(nulls, ", ") + ")"
	}
	rows, err := conn.Query(t.Context(), "EXPLAIN EXECUTE checked"+arguments)
	require.NoError(t, err, sql)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err, sql)
	return strings.Join(lines, "\n")
}

// fill puts n runs with a step, a result and an entry of the journal each into the database.
func (b *bench) fill(n int) {
	b.t.Helper()
	conn, err := b.database.Pool.Acquire(b.t.Context())
	require.NoError(b.t, err)
	defer conn.Release()
	for _, statement := range []string{
		`CREATE TEMPORARY TABLE ids AS SELECT ('01935a00-' || substr(lpad(to_hex(i), 8, '0'), 1, 4) || '-7' || substr(lpad(to_hex(i), 8, '0'), 5, 3) || substr(gen_random_uuid()::text, 19))::uuid AS id, i
			FROM generate_series(1, ` + strconv.Itoa(n) + `) i`,
		`INSERT INTO core.pipeline_run (id, tenant, kind, pipeline, pipeline_version, pipeline_digest, steps_total, output_step,
			entity_id, created_at, class, status, state, deadline_at, updated_at, finished_at, batch_id)
			SELECT id, 'tenant' || i % 10, 'run', 'p', 'v1', sha256('p'), 3, 'c', 'e' || i, now(), 'batch', s.status, '{}',
			       now() + i * interval '1 s', now(), CASE WHEN s.status <> 'running' THEN now() + i * interval '1 ms' END,
			       CASE WHEN i % 2 = 0 THEN '01935a00-0000-7000-8000-000000000001'::uuid WHEN i % 100 = 1 THEN id END
			FROM ids, LATERAL (SELECT CASE WHEN i % 1000 = 1 THEN 'failed' WHEN i % 3 = 0 THEN 'running' ELSE 'done' END AS status) s`,
		`INSERT INTO core.step_live (run_id, step, shard, generation, tenant, class, status, worker, ready_at, queued_at, claimed_at, due_at)
			SELECT id, 'b', -1, 1, 'tenant' || i % 10, 'batch', (ARRAY['ready','queued','running','backoff'])[1 + i % 4],
			       gen_random_uuid(), now(), now(), now(), now() + i * interval '1 s' FROM ids`,
		`INSERT INTO core.pipeline_step_result (run_id, step, generation, status, attempt, finished_at)
			SELECT id, 'a', 1, 'done', 1, now() FROM ids`,
		`INSERT INTO core.run_event (run_id, seq, at, actor, kind, detail) SELECT id, 1, now(), 'system', 'created', '{}' FROM ids`,
		`INSERT INTO core.idempotency (tenant, key, request_digest, kind, resource_id, expires_at)
			SELECT 'tenant' || i % 10, 'key' || i, sha256('r'), 'run', id, now() FROM ids`,
		`INSERT INTO core.payload (run_id, n, bytes, content) SELECT id, 1, 1, 'x' FROM ids`,
		`INSERT INTO core.review (id, tenant, run_id, step, shard, generation, reason, opened_at)
			SELECT gen_random_uuid(), 'tenant' || i % 10, id, 'b', -1, 1, 'low_confidence', now() FROM ids WHERE i % 10 = 0`,
		`INSERT INTO core.batch (id, tenant, pipeline, pipeline_version, class, created_at, sealed_at)
			SELECT batch_id, 'tenant1', 'p', 'v1', 'batch', now(), now() FROM core.pipeline_run WHERE batch_id IS NOT NULL GROUP BY batch_id`,
		`INSERT INTO core.batch_count (batch_id, status, reason, n, cost_usd, example)
			SELECT batch_id, status, reason, count(*), 0, max(id::text)::uuid FROM core.pipeline_run WHERE batch_id IS NOT NULL
			GROUP BY batch_id, status, reason`,
		`INSERT INTO core.batch_delta (batch_id, status, reason, n, cost_usd, example)
			SELECT batch_id, 'done', '', 0, 0, batch_id FROM core.batch_count`,
		`ANALYZE`,
	} {
		_, err := conn.Exec(b.t.Context(), statement)
		require.NoError(b.t, err, statement)
	}
}
