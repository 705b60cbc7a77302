package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/llmgateway/provider/simulated"
)

const (
	// What is unfinished when everything stops: steps whose ids Redis has lost, steps that nobody has dispatched, and steps
	// that are RUNNING with runners that are gone.
	lostRuns, readyRuns, runningRuns = 25_000, 20_000, 5_000
	// readyTime is how soon the system must be ready again.
	readyTime = 5 * time.Second
)

// TestI04_FiftyThousandRunsAreRecovered stops everything, Redis without its memory, with 50 000 runs under way. The system is
// ready again at once, whatever waits, and all of it is finished: a start does not go through the runs one by one.
func TestI04_FiftyThousandRunsAreRecovered(t *testing.T) {
	full(t)
	p := harness.StartProvider(t)
	f := start(t, harness.FleetConfig{Provider: p})
	register(t, f, "recovery_transform", "recovery_llm")
	hold := p.Inject(simulated.Fault{Kind: "hold"})
	running := submitRun(t, f, "recovery_llm")
	p.AwaitInFlight(1)
	awaitStep(t, f, running, "running")
	for _, r := range f.Of(serve.StepRunner) {
		r.Down()
	}
	queued := submitRun(t, f, "recovery_transform")
	awaitStep(t, f, queued, "queued")
	for _, r := range f.All() {
		r.Down()
	}
	hold()
	repeatRun(t, f, running, "running", runningRuns-1)
	repeatRun(t, f, queued, "queued", lostRuns-1)
	repeatRun(t, f, queued, "ready", readyRuns)
	require.NoError(t, f.API.Redis.Client.FlushAll(t.Context()).Err())
	before := p.Report()

	began := time.Now()
	for _, r := range f.All() {
		r.Up()
	}
	f.AwaitReady()
	ready := time.Since(began)
	t.Logf("ready after %v with %d unfinished runs", ready, lostRuns+readyRuns+runningRuns)
	require.Less(t, ready, readyTime)
	awaitNoneUnfinished(t, f)
	t.Logf("all of them ended after %v", time.Since(began))
	require.Equal(t, lostRuns+readyRuns+runningRuns, f.API.Count(`SELECT count(*) FROM core.pipeline_run WHERE status = 'done'`))
	require.Equal(t, runningRuns, p.Report().Received-before.Received, "every question once; the one in doubt once more")
	require.Zero(t, f.API.Count(`SELECT count(*) FROM core.step_live`))
	requireHealthy(t, f)
}

// submitRun has a run accepted and returns its id.
func submitRun(t *testing.T, f *harness.Fleet, pipeline string) string {
	t.Helper()
	run, err := f.API.Submit(pipeline, t.Name()+pipeline, map[string]any{"text": pipeline})
	require.NoError(t, err)
	return run
}

// awaitStep waits until the only step of a run is in the state.
func awaitStep(t *testing.T, f *harness.Fleet, run, status string) {
	t.Helper()
	harness.Eventually(t, func() error {
		var now string
		err := f.API.DB.QueryRow(t.Context(), `SELECT status FROM core.step_live WHERE run_id = $1`, run).Scan(&now)
		if err == nil && now != status {
			err = fmt.Errorf("the step is %s, not %s", now, status)
		}
		return err
	})
}

// repeatRun copies what is stored of a run, with its step in the state, as often as wanted, each under an id of its own of the
// same day.
func repeatRun(t *testing.T, f *harness.Fleet, run, status string, times int) {
	t.Helper()
	tx, err := f.API.DB.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context())
	_, err = tx.Exec(t.Context(), `
CREATE TEMPORARY TABLE copy ON COMMIT DROP AS
SELECT (left($1::text, 15) || substr(gen_random_uuid()::text, 16))::uuid AS id FROM generate_series(1, $2)`, run, times)
	require.NoError(t, err)
	for table, key := range map[string]string{"pipeline_run": "id", "run_event": "run_id", "step_live": "run_id"} {
		change := `jsonb_build_object('` + key + `', copy.id)`
		if table == "step_live" {
			change += ` || jsonb_build_object('status', '` + status + `')`
		}
		_, err = tx.Exec(t.Context(), `
INSERT INTO core.`+table+`
SELECT (jsonb_populate_record(NULL::core.`+table+`, to_jsonb(row) || `+change+`)).*
FROM core.`+table+` row, copy WHERE row.`+key+` = $1`, run)
		require.NoError(t, err, table)
	}
	require.NoError(t, tx.Commit(t.Context()))
}

// awaitNoneUnfinished waits until every run has ended; the patience is for each thousand of them.
func awaitNoneUnfinished(t *testing.T, f *harness.Fleet) {
	t.Helper()
	unfinished := func() int { return f.API.Count(`SELECT count(*) FROM core.pipeline_run WHERE finished_at IS NULL`) }
	for left := unfinished(); left > 0; {
		goal := max(left-1000, 0)
		harness.Eventually(t, func() error {
			if left = unfinished(); left > goal {
				return fmt.Errorf("%d runs have not ended", left)
			}
			return nil
		})
	}
}
