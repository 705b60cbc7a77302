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

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clock"
)

// No statement of the store reads a large table whole, with 100 000 calls in it.
func TestPlansGoByKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.NoError(t, b.MakePartitions(t.Context(), clock.System().Now()))
	b.fill(100_000)
	conn, err := b.pool.Acquire(t.Context())
	require.NoError(t, err)
	t.Cleanup(conn.Release)
	statements := generated(t)
	require.Greater(t, len(statements), 15)
	whole := regexp.MustCompile(`Seq Scan on (run_spend|spend_owed|llm_call_log|llm_try|cancelled_step)`)
	// The rows are in the default partitions.
	keyed := regexp.MustCompile(`Scan using \w+ on (spend_owed|\w+_default)`)
	for _, sql := range statements {
		name, _, _ := strings.Cut(strings.TrimPrefix(sql, "-- name: "), " ")
		t.Run(name, func(t *testing.T) {
			plan := explain(t, conn, sql, uuid.Nil, uuid.Max)
			require.NotRegexp(t, whole, plan)
			lines := append(strings.Split(plan, "\n"), "")
			for i, line := range lines {
				if keyed.MatchString(line) {
					require.Contains(t, lines[i+1], "Index Cond", plan)
				}
			}
		})
	}
}

// generated returns the statements of package db.
func generated(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("db/*.sql.go")
	require.NoError(t, err)
	var statements []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile("(?s)= `(-- name: .*?)`").FindAllSubmatch(text, -1) {
			statements = append(statements, string(found[1]))
		}
	}
	return statements
}

// TestGroupsOpenOneDay: what a statement of the group commit costs does not depend on how many days have partitions.
func TestGroupsOpenOneDay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.NoError(t, b.MakePartitions(t.Context(), clock.System().Now()))
	conn, err := b.pool.Acquire(t.Context())
	require.NoError(t, err)
	t.Cleanup(conn.Release)
	id := b.ids.V7()
	day := regexp.MustCompile(`_(\d{8}|default)\b`)
	bounded := 0
	for _, sql := range generated(t) {
		name, _, _ := strings.Cut(strings.TrimPrefix(sql, "-- name: "), " ")
		if !bounds.MatchString(sql) {
			continue
		}
		bounded++
		plan := explain(t, conn, sql, id, id)
		days := map[string]bool{}
		for line := range strings.Lines(plan) {
			if found := day.FindString(line); found != "" && strings.Contains(line, "Scan") {
				days[found] = true
			}
		}
		require.Len(t, days, 1, "%s opens %v\n%s", name, days, plan)
	}
	require.GreaterOrEqual(t, bounded, 8)
	for _, hot := range []string{"LockPurses", "ReadGroup", "UpdatePurses", "UpdateCalls", "SettleTries", "FindCalls"} {
		require.True(t, slices.ContainsFunc(generated(t), func(sql string) bool {
			return strings.HasPrefix(sql, "-- name: "+hot+" ") && bounds.MatchString(sql)
		}), "%s has no bounds", hot)
	}
}

// bounds are the parameters that say between which ids those of a group are.
var bounds = regexp.MustCompile(`BETWEEN \$(\d+)::uuid AND \$(\d+)::uuid`)

// explain returns the plan that the store's sessions use for a statement about runs between two ids.
func explain(t *testing.T, conn *pgxpool.Conn, sql string, least, most uuid.UUID) string {
	t.Helper()
	_, err := conn.Exec(t.Context(), "PREPARE checked AS "+sql)
	require.NoError(t, err, sql)
	defer func() {
		_, err := conn.Exec(t.Context(), "DEALLOCATE checked")
		require.NoError(t, err)
	}()
	var values []string
	for regexp.MustCompile(fmt.Sprintf(`\$%d\b`, len(values)+1)).MatchString(sql) {
		values = append(values, "NULL")
	}
	for _, found := range bounds.FindAllStringSubmatch(sql, -1) {
		for i, id := range []uuid.UUID{least, most} {
			n, err := strconv.Atoi(found[i+1])
			require.NoError(t, err)
			values[n-1] = "'" + id.String() + "'"
		}
	}
	arguments := ""
	if len(values) > 0 {
		arguments = "(" + strings.Join(values, ", ") + ")"
	}
	rows, err := conn.Query(t.Context(), "EXPLAIN EXECUTE checked"+arguments)
	require.NoError(t, err, sql)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err, sql)
	return strings.Join(lines, "\n")
}

// fill puts n runs with a call and a request each into the database.
func (b *bundle) fill(n int) {
	b.t.Helper()
	conn, err := b.pool.Acquire(b.t.Context())
	require.NoError(b.t, err)
	defer conn.Release()
	for _, statement := range []string{
		fmt.Sprintf(`CREATE TEMPORARY TABLE runs AS SELECT gen_random_uuid() AS id, sha256(i::text::bytea) AS key
			FROM generate_series(1, %d) i`, n),
		`INSERT INTO llm.run_spend (run_id, tenant, epoch) SELECT id, 'acme', 0 FROM runs`,
		`INSERT INTO llm.spend_owed (run_id, version, since) SELECT id, 1, now() FROM runs`,
		`INSERT INTO llm.llm_call_log (run_id, call_key, tenant, step, shard, generation, ask, class, prompt_version, request,
			created_at, state, tries)
			SELECT id, key, 'acme', 's', -1, 0, 0, 'batch', '', '{}', now(), 'in_flight', 1 FROM runs`,
		`INSERT INTO llm.llm_try (run_id, call_key, try_no, provider, model, format, key_id, max_output_tokens, price_id, holder,
			permit_wait, sent_at, state, reserved)
			SELECT id, key, 1, 'p', 'm', 'openai', '', 1, 1, gen_random_uuid(), '0', now(), 'in_flight', 0 FROM runs`,
		`INSERT INTO llm.cancelled_step (run_id, step, generation, at) SELECT id, 's', 0, now() FROM runs`,
		`ANALYZE`,
	} {
		_, err := conn.Exec(b.t.Context(), statement)
		require.NoError(b.t, err, statement)
	}
}
