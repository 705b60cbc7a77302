package scenario

import (
	"fmt"
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// Pipelines whose runs wait in every way that there is.
const (
	waitingAsk = `
name: waiting_ask
version: v1
steps:
  - name: ask
    llm: {prompt: "Question ${input.case}"}
    max_calls: 100
    retry: {max_attempts: 100, initial: 1500ms, factor: 1, jitter: 0}
`
	waitingFan = `
name: waiting_fan
version: v1
steps:
  - name: ask
    for_each: ${input.items}
    concurrency: 50
    llm: {prompt: "Question ${input.case} ${item}"}
`
	waitingReview = `
name: waiting_review
version: v1
deadline: 4s
steps:
  - name: ask
    llm: {prompt: "Question ${input.case}"}
    on_error: review
`
)

// deadlineIn limits the time of a run.
func deadlineIn(d time.Duration) func(map[string]any) {
	return func(body map[string]any) { body["deadline"] = fmt.Sprintf("%gs", d.Seconds()) }
}

// fanned are so many items.
func fanned(n int) []int {
	items := make([]int, n)
	for i := range items {
		items[i] = i
	}
	return items
}

// overrun is how long after its deadline the run has ended, by PostgreSQL's clock.
func overrun(t *testing.T, s *harness.System, run string) time.Duration {
	t.Helper()
	text := s.Text(`SELECT extract(epoch FROM finished_at - deadline_at)::text FROM core.pipeline_run WHERE id = $1`, run)
	seconds, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return time.Duration(seconds * float64(time.Second))
}

// requireDeadline waits for the run's end and fails unless its deadline has ended it, and soon.
func requireDeadline(t *testing.T, s *harness.System, run string) {
	t.Helper()
	state := s.AwaitEnd(run)
	require.Equal(t, "failed", state.Status)
	require.Equal(t, "deadline_exceeded", state.Reason, state.Error)
	require.NotEmpty(t, state.Error)
	late := overrun(t, s, run)
	t.Logf("ended %v after the deadline", late)
	require.GreaterOrEqual(t, late, time.Duration(0), "it was ended too soon")
	require.Less(t, late, slack(2*time.Second))
	require.Zero(t, s.Count("SELECT count(*) FROM core.step_live WHERE run_id = $1", run))
}

// TestI08_EveryRunEnds lets runs wait for everything that a run can wait for, past their deadlines: each is ended within two
// seconds, whatever its steps are doing. Only what waits for a person is left alone, and has its remaining time afterwards.
func TestI08_EveryRunEnds(t *testing.T) {
	const permits, limit = 4, 4 * time.Second
	p := harness.StartProvider(t)
	s := harness.Start(t, harness.Config{Provider: p, Concurrency: permits, Env: shortLeases()})
	for _, source := range []string{waitingAsk, waitingFan, waitingReview} {
		registerSource(t, s, source)
	}
	start := func(t *testing.T, s *harness.System, pipeline, name string, items int) string {
		t.Helper()
		id, err := s.Submit(pipeline, "i08 "+name, map[string]any{"case": name, "items": fanned(items)}, deadlineIn(limit))
		require.NoError(t, err)
		return id
	}
	status := func(s *harness.System, id string) string {
		return s.Text("SELECT status FROM core.step_live WHERE run_id = $1 LIMIT 1", id)
	}

	t.Run("in a call", func(t *testing.T) {
		s, p := s.For(t), p.For(t)
		p.Inject(simulated.Fault{Kind: "hang", Contains: "[call]"})
		run := start(t, s, "waiting_ask", "[call]", 0)
		p.AwaitInFlight(1)
		requireDeadline(t, s, run)
		p.AwaitInFlight(0)
	})
	t.Run("between attempts", func(t *testing.T) {
		s, p := s.For(t), p.For(t)
		p.Inject(simulated.Fault{Kind: "503", Contains: "[backoff]"})
		run := start(t, s, "waiting_ask", "[backoff]", 0)
		state := s.AwaitEnd(run) // a wait past the deadline ends the run before it
		require.Equal(t, "deadline_exceeded", state.Reason, state.Error)
		require.Less(t, overrun(t, s, run), slack(2*time.Second))
	})
	t.Run("parked", func(t *testing.T) {
		s, p := s.For(t), p.For(t)
		// A wait of an overloaded provider's; one that a limit states would stop the whole account, and lower its ceiling.
		p.Inject(simulated.Fault{Kind: "503", Argument: "1500ms", Contains: "[parked]"})
		run := start(t, s, "waiting_ask", "[parked]", 0)
		state := s.AwaitEnd(run)
		require.Equal(t, "deadline_exceeded", state.Reason, state.Error)
		require.Less(t, overrun(t, s, run), slack(2*time.Second))
	})
	t.Run("in a fan-out, and behind it for a permit", func(t *testing.T) {
		s, p := s.For(t), p.For(t)
		release := p.Inject(simulated.Fault{Kind: "hold", Contains: "[fan]"})
		defer release()
		fan := start(t, s, "waiting_fan", "[fan]", 50)
		p.AwaitInFlight(permits)
		before := p.Report().Received
		behind := start(t, s, "waiting_ask", "[permit]", 0)
		requireDeadline(t, s, fan)
		if state := s.AwaitEnd(behind); state.Status != "done" { // the fan-out's end may have given it a permit in time
			requireDeadline(t, s, behind)
		}
		p.AwaitInFlight(0)
		require.LessOrEqual(t, p.Report().Received-before, 1, "the shards that waited have sent nothing")
	})
	t.Run("for a permit that does not come", func(t *testing.T) {
		s, p := s.For(t), p.For(t)
		release := p.Inject(simulated.Fault{Kind: "hold", Contains: "[block]"})
		block, err := s.Submit("waiting_fan", "i08 block", map[string]any{"case": "[block]", "items": fanned(permits)})
		require.NoError(t, err)
		p.AwaitInFlight(permits)
		before := p.Report().Received
		requireDeadline(t, s, start(t, s, "waiting_ask", "[no permit]", 0))
		require.Equal(t, before, p.Report().Received, "it has sent nothing")
		release()
		require.Equal(t, "done", s.AwaitEnd(block).Status)
	})
	t.Run("while every runner sleeps", func(t *testing.T) {
		s := s.For(t)
		s.Pause(serve.StepRunner)
		run := start(t, s, "waiting_ask", "[queued]", 0)
		require.Equal(t, "queued", status(s, run))
		requireDeadline(t, s, run)
		s.Signal(serve.StepRunner, syscall.SIGCONT)
		requireNothingLeft(t, s)
	})
	t.Run("not while a person is awaited", func(t *testing.T) {
		s, p := s.For(t), p.For(t)
		p.Inject(simulated.Fault{Kind: "400", Contains: "[review]", Count: 1})
		run, err := s.Submit("waiting_review", "i08 review", map[string]any{"case": "[review]"})
		require.NoError(t, err)
		s.AwaitRun(run, func(r harness.RunState) bool { return r.Status == "needs_review" })
		harness.Eventually(t, func() error { // several looks at deadlines have gone by
			if s.Count("SELECT count(*) FROM core.pipeline_run WHERE id = $1 AND deadline_at + interval '3 s' < clock_timestamp()", run) == 0 {
				return fmt.Errorf("the deadline has not passed")
			}
			return nil
		})
		require.Equal(t, "needs_review", s.AwaitRun(run, func(harness.RunState) bool { return true }).Status)
		left := s.Text("SELECT (deadline_at - paused_at)::text FROM core.pipeline_run WHERE id = $1", run)

		release := p.Inject(simulated.Fault{Kind: "hold", Contains: "[review]"})
		defer release()
		again := s.Do(http.MethodPost, "/v1/runs/"+run+":retry", "", map[string]any{"reason": "the provider is well again"})
		require.Equal(t, http.StatusOK, again.Status, "%s", again.Body)
		p.AwaitInFlight(1)
		require.Equal(t, 1, s.Count(`SELECT count(*) FROM core.pipeline_run r JOIN core.run_event e ON e.run_id = r.id
			WHERE r.id = $1 AND e.kind = 'operator_retry' AND r.deadline_at - e.at = $2::interval`, run, left),
			"the remaining time is what it was")
		requireDeadline(t, s, run)
	})
	requireNothingLeft(t, s)
}
