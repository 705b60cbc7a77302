package harness

import "fmt"

// leftovers count what must not be left of runs that have ended, by what it is. The figures must agree to the last digit, in
// the run, its purse, its calls and their requests.
var leftovers = map[string]string{
	"steps can still be claimed": `
SELECT count(*) FROM core.step_live l JOIN core.pipeline_run r ON r.id = l.run_id
WHERE l.run_id = ANY($1) AND (r.finished_at IS NOT NULL OR l.status NOT IN ('needs_review', 'pending'))`,
	"purses are not told to close": `SELECT count(*) FROM core.spend_gate_owed WHERE run_id = ANY($1)`,
	"calls are not told to end":    `SELECT count(*) FROM core.call_cancel_owed WHERE run_id = ANY($1)`,
	"figures of spend are owed":    `SELECT count(*) FROM llm.spend_owed WHERE run_id = ANY($1)`,
	"costs differ, or requests are in flight": `
SELECT count(*) FROM core.pipeline_run r LEFT JOIN llm.run_spend s ON s.run_id = r.id,
    LATERAL (SELECT coalesce(sum(cost), 0) AS cost, count(*) FILTER (WHERE state = 'in_flight') AS open FROM llm.llm_try WHERE run_id = r.id) AS tries,
    LATERAL (SELECT coalesce(sum(cost), 0) AS cost FROM llm.llm_call_log WHERE run_id = r.id) AS calls
WHERE r.id = ANY($1) AND NOT (
    r.cost_usd = tries.cost AND calls.cost = tries.cost AND coalesce(s.spent, 0) = tries.cost AND coalesce(s.reserved, 0) = 0 AND tries.open = 0)`,
}

// AwaitQuiet waits until nothing is left of runs that have ended, or wait for a person: nothing that anybody could claim, send
// or tell, and no entry in a stream. No other runs may go on.
func (s *System) AwaitQuiet(runs []string) {
	s.t.Helper()
	for what, query := range leftovers {
		s.AwaitNone(what, query, runs)
	}
	for _, key := range s.Streams() {
		Eventually(s.t, func() error {
			n, err := s.Redis.Client.XLen(s.t.Context(), key).Result()
			if err == nil && n > 0 {
				err = fmt.Errorf("%s holds %d entries", key, n)
			}
			return err
		})
	}
}

// AwaitNone waits until a query counts none; the database may be away meanwhile.
func (s *System) AwaitNone(what, query string, args ...any) {
	s.t.Helper()
	Eventually(s.t, func() error {
		var n int
		err := s.DB.QueryRow(s.t.Context(), query, args...).Scan(&n)
		if err == nil && n > 0 {
			err = fmt.Errorf("%d: %s", n, what)
		}
		return err
	})
}

// ExecutedTwice counts the steps and shards of runs that finished or were expanded more than once, or that were begun again
// after they had finished. Runs that people ran again are not for it.
func (s *System) ExecutedTwice(runs []string) int {
	s.t.Helper()
	return s.Count(executedTwice, runs)
}

const executedTwice = `
SELECT (SELECT count(*) FROM (
            SELECT FROM core.run_event WHERE run_id = ANY($1) AND step <> '' AND detail ->> 'status' IN ('done', 'skipped')
            GROUP BY run_id, step, shard HAVING count(*) > 1) AS finished_again)
     + (SELECT count(*) FROM (
            SELECT FROM core.run_event WHERE run_id = ANY($1) AND kind = 'expanded'
            GROUP BY run_id, step HAVING count(*) > 1) AS expanded_again)
     + (SELECT count(*) FROM core.step_history WHERE run_id = ANY($1))
     + (SELECT count(*) FROM core.run_event later JOIN core.pipeline_step_result done USING (run_id, step, shard)
        WHERE run_id = ANY($1) AND done.status = 'done' AND later.at > done.finished_at AND later.attempt > done.attempt)`

// Streams are the keys of the streams of steps: of the interactive class, and of batches.
func (s *System) Streams() []string {
	return []string{s.Redis.Prefix + ":{steps}:interactive", s.Redis.Prefix + ":{steps}:batch"}
}
