package store_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/store"
)

// requireCheap fails when what is asked every second, or for every reader, touches more than a few pages.
func (b *bench) requireCheap(t *testing.T) {
	t.Helper()
	const few = 200
	const filledBatch = "'01935a00-0000-7000-8000-000000000001'"
	var run string
	b.scan(`SELECT '''' || id || '''' FROM core.pipeline_run OFFSET 50000 LIMIT 1`, nil, &run)
	for _, asked := range []struct {
		statement string
		arguments []string
	}{
		{"FindDue", []string{"gen_random_uuid()", "'3 s'", "'-infinity'", "'1 s'", "1000", "'-infinity'", "'-infinity'"}},
		{"FindLateEntries", []string{
			"ARRAY['interactive', 'batch']", "ARRAY['-infinity', '-infinity']::timestamptz[]",
			"ARRAY['1 hour', '1 hour']::interval[]", "1000",
		}},
		{"FindUnlistedSteps", []string{"gen_random_uuid()", "'-infinity'", "'10 s'", "'{}'", "'{}'", "'{}'"}},
		{"FindWaitingTenants", []string{"'tenant4'", "'batch'", "100", "'{}'"}},
		{"FindReady", []string{"ARRAY['tenant0', 'tenant2']", "ARRAY[0, 1]", "ARRAY[25, 25]", "'batch'"}},
		{"ListRuns", []string{"'tenant1'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "''", "''", "''", "''", "50"}},
		{"ListRuns", []string{"'tenant1'", run, "''", "''", "''", "''", "50"}},
		{"ListRunsByStatus", []string{"'tenant1'", "'failed'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "''", "''", "''", "''", "50"}},
		{"ListRunsByStatus", []string{"'tenant1'", "'needs_review'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "''", "''", "''", "''", "50"}},
		{"ListRunsByEntity", []string{"'tenant1'", "'e12341'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "''", "''", "''", "''", "''", "50"}},
		{"ListSteps", []string{"1000000", "ARRAY['a', 'b']", "ARRAY[0, 1]", run, "-1", "-1", "50"}},
		{"ListEvents", []string{run, "0", "50"}},
		{"ListLive", []string{"ARRAY[" + run + "]::uuid[]", "20"}},
		{"CountBatches", []string{"ARRAY[" + filledBatch + "]::uuid[]"}},
		{"FindOpenItems", []string{filledBatch, run, "50"}},
		{"FindEndedItems", []string{filledBatch, "now() + interval '50 s'", run, "false", "50"}},
		{"ListBatches", []string{"'tenant1'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "50"}},
		{"ListRunsByBatch", []string{"'tenant0'", filledBatch, "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "''", "''", "''", "50"}},
		{"ReadGates", []string{"'{}'", "'{}'", "500"}},
		{"ReadCallCancels", []string{"'{}'", "'{}'", "'{}'", "'{}'", "500"}},
	} {
		require.Less(t, b.cost(asked.statement, asked.arguments...), few, "%s %v", asked.statement, asked.arguments)
	}
}

// cost returns how many pages a statement of package db touches. Arguments are SQL.
func (b *bench) cost(statement string, arguments ...string) int {
	b.t.Helper()
	conn, err := b.pools[0].Acquire(b.t.Context())
	require.NoError(b.t, err)
	defer conn.Release()
	_, err = conn.Exec(b.t.Context(), "PREPARE measured AS "+statementNamed(b.t, statement))
	require.NoError(b.t, err)
	var text []byte
	execution := fmt.Sprintf("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE measured(%s)", strings.Join(arguments, ", "))
	require.NoError(b.t, conn.QueryRow(b.t.Context(), execution).Scan(&text))
	_, err = conn.Exec(b.t.Context(), "DEALLOCATE measured")
	require.NoError(b.t, err)
	var explained []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	require.NoError(b.t, json.Unmarshal(text, &explained))
	return explained[0].Plan.Hit + explained[0].Plan.Read
}

func statementNamed(t testing.TB, name string) string {
	t.Helper()
	if sql, written := store.ByHand()[name]; written {
		return sql
	}
	for _, sql := range generated(t) {
		if strings.HasPrefix(sql, "-- name: "+name+" ") {
			return sql
		}
	}
	require.FailNow(t, "there is no such statement", name)
	return ""
}

// A tenant with ten thousand waiting steps costs no more than one with ten.
func TestLongBacklogCostsNoMore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`INSERT INTO core.step_live (run_id, step, generation, tenant, class, status, ready_at)
		SELECT gen_random_uuid(), 'a', 1, CASE WHEN i <= 10 THEN 'small' ELSE 'large' END, 'batch', 'ready', now() + i * interval '1 ms'
		FROM generate_series(1, 10010) i`)
	b.exec(`VACUUM (ANALYZE) core.step_live`)
	small := b.cost("FindReady", "ARRAY['small']", "ARRAY[0]", "ARRAY[10]", "'batch'")
	require.LessOrEqual(t, b.cost("FindReady", "ARRAY['large']", "ARRAY[0]", "ARRAY[10]", "'batch'"), small+10)
	require.Less(t, b.cost("FindWaitingTenants", "''", "'batch'", "100", "'{}'"), 60)
}

// While somebody holds an old snapshot, versions of rows that are gone cannot be removed. What sweeps have dealt with they do
// not walk over again.
func TestOldSnapshotDoesNotSlowSweeps(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tx := b.begin()
	_, err := tx.Exec(t.Context(), "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT count(*) FROM core.step_live")
	require.NoError(t, err)
	worker := b.ids.V4()
	b.exec(`INSERT INTO core.step_live (run_id, step, generation, tenant, class, status, worker, due_at, queued_at, claimed_at)
		SELECT gen_random_uuid(), 'a', 1, 'acme', 'batch', s.status, $1, now() - interval '1 minute', now() - interval '1 minute',
		       now() - interval '1 minute'
		FROM generate_series(1, 10000), (VALUES ('queued'), ('running')) s(status)`, worker)
	b.exec(`DELETE FROM core.step_live`)
	bound := "now() - interval '30 s'"
	for _, swept := range []struct {
		statement string
		arguments []string
	}{
		{"FindDue", []string{"gen_random_uuid()", "'3 s'", "%s", "'1 s'", "1000", "%s", "%s"}},
		{"FindLateEntries", []string{"ARRAY['batch']", "ARRAY[%s]", "ARRAY['5 s']::interval[]", "1000"}},
		{"FindUnlistedSteps", []string{"'" + worker.String() + "'", "%s", "'10 s'", "'{}'", "'{}'", "'{}'"}},
	} {
		from := func(bound string) []string {
			arguments := make([]string, len(swept.arguments))
			for i, a := range swept.arguments {
				arguments[i] = strings.ReplaceAll(a, "%s", bound)
			}
			return arguments
		}
		require.Greater(t, b.cost(swept.statement, from("'-infinity'::timestamptz")...), 300, "the old versions are there")
		require.Less(t, b.cost(swept.statement, from(bound)...), 50, swept.statement)
	}
}

// exec changes the database behind the store's back.
func (b *bench) exec(sql string, arguments ...any) {
	b.t.Helper()
	_, err := b.database.Pool.Exec(b.t.Context(), sql, arguments...)
	require.NoError(b.t, err, sql)
}
