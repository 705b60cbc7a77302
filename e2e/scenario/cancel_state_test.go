package scenario

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/llmgateway/provider/simulated"
)

const (
	cancelledAsk = `
name: cancelled_ask
version: v1
steps:
  - name: ask
    llm: {prompt: "Question ${input.case}"}
    retry: {max_attempts: 5, initial: 60s, factor: 1, jitter: 0}
  - name: after
    llm: {prompt: "After ${input.case} ${steps.ask.output}"}
`
	cancelledFan = `
name: cancelled_fan
version: v1
steps:
  - name: ask
    for_each: ${input.items}
    concurrency: 20
    llm: {prompt: "Question ${input.case} ${item}"}
  - name: after
    llm: {prompt: "After ${input.case} ${steps.ask.output}"}
`
)

// heartbeat is a quarter of the lease of shortLeases.
const heartbeat = 500 * time.Millisecond

// cancel asks for a run's end until it is answered, as a client does that repeats itself.
func cancel(t *testing.T, s *harness.System, run string) {
	t.Helper()
	harness.Eventually(t, func() error {
		response, err := s.Try(s.Record().REST, http.MethodPost, "/v1/runs/"+run+":cancel", s.Header(""), map[string]any{"reason": "test"})
		if err != nil {
			return err
		}
		return response.Decode(nil)
	})
}

// requireCancelled cancels the run and fails unless it has ended within the time, measured from before the request.
func requireCancelled(t *testing.T, s *harness.System, run string, within time.Duration) {
	t.Helper()
	began := time.Now()
	cancel(t, s, run)
	require.Equal(t, "cancelled", s.AwaitEnd(run).Status)
	took := time.Since(began)
	t.Logf("cancelled in %v", took)
	require.Less(t, took, slack(within))
	require.Zero(t, s.Count("SELECT count(*) FROM core.step_live WHERE run_id = $1", run))
}

// awaitStep waits until a row of the run is in the state.
func awaitStep(t *testing.T, s *harness.System, run, status string, least int) {
	t.Helper()
	harness.Eventually(t, func() error {
		if n := s.Count("SELECT count(*) FROM core.step_live WHERE run_id = $1 AND status = $2", run, status); n < least {
			return fmt.Errorf("%d steps are %s", n, status)
		}
		return nil
	})
}

// quiet waits until nothing is owed to the gateway, and then a while longer in which every loop has looked several times.
func quiet(t *testing.T, s *harness.System) {
	t.Helper()
	harness.Eventually(t, func() error {
		if n := s.Count("SELECT (SELECT count(*) FROM core.spend_gate_owed) + (SELECT count(*) FROM core.call_cancel_owed)"); n > 0 {
			return fmt.Errorf("%d orders are owed to the gateway", n)
		}
		return nil
	})
	since := s.Text("SELECT clock_timestamp()::text")
	harness.Eventually(t, func() error {
		if s.Count("SELECT count(*) WHERE clock_timestamp() > $1::timestamptz + interval '6 s'", since) == 0 {
			return fmt.Errorf("the watch is not over")
		}
		return nil
	})
}

// TestI12_CancelEndsEveryStateInTime cancels runs in every state that a run can wait in: each ends at once, its calls are
// closed at the provider, its permits serve others, and after everything was started anew nothing of it begins again.
func TestI12_CancelEndsEveryStateInTime(t *testing.T) {
	const permits = 20
	p := harness.StartProvider(t)
	s := harness.Start(t, harness.Config{Provider: p, Concurrency: permits, Env: shortLeases()})
	registerSource(t, s, cancelledAsk)
	registerSource(t, s, cancelledFan)
	var cancelled []string
	start := func(t *testing.T, s *harness.System, pipeline, name string) string {
		t.Helper()
		id, err := s.Submit(pipeline, "i12 "+name, map[string]any{"case": name, "items": fanned(50)})
		require.NoError(t, err)
		cancelled = append(cancelled, id)
		return id
	}
	t.Run("between attempts", func(t *testing.T) {
		s, p := s.For(t), p.For(t)
		p.Inject(simulated.Fault{Kind: "503", Contains: "[backoff]"})
		run := start(t, s, "cancelled_ask", "[backoff]")
		awaitStep(t, s, run, "backoff", 1)
		requireCancelled(t, s, run, time.Second)
	})
	t.Run("parked", func(t *testing.T) {
		s, p := s.For(t), p.For(t)
		// A wait of an overloaded provider's; one that a limit states would stop the whole account.
		p.Inject(simulated.Fault{Kind: "503", Argument: "10m", Contains: "[parked]"})
		run := start(t, s, "cancelled_ask", "[parked]")
		awaitStep(t, s, run, "waiting", 1)
		requireCancelled(t, s, run, time.Second)
	})
	t.Run("in a call", func(t *testing.T) {
		s, p := s.For(t), p.For(t)
		before := p.Report()
		p.Inject(simulated.Fault{Kind: "hang", Contains: "[call]"})
		run := start(t, s, "cancelled_ask", "[call]")
		p.AwaitInFlight(1)
		began := time.Now()
		requireCancelled(t, s, run, time.Second+heartbeat)
		p.AwaitInFlight(0) // the provider has seen the connection closed
		require.Less(t, time.Since(began), slack(time.Second+heartbeat))
		require.Len(t, p.Since(before), 1)
	})
	t.Run("a fan-out, and what waits behind it for a permit", func(t *testing.T) {
		s, p := s.For(t), p.For(t)
		before := p.Report().Received
		p.Inject(simulated.Fault{Kind: "hold", Contains: "[fan]"})
		p.Inject(simulated.Fault{Kind: "hold", Contains: "[behind]"})
		fan := start(t, s, "cancelled_fan", "[fan]")
		p.AwaitInFlight(permits)
		waiting := start(t, s, "cancelled_ask", "[waiting]")
		awaitStep(t, s, waiting, "running", 1)
		requireCancelled(t, s, waiting, time.Second+heartbeat)
		behind := start(t, s, "cancelled_ask", "[behind]")
		awaitStep(t, s, behind, "running", 1)
		requireCancelled(t, s, fan, time.Second+heartbeat)
		p.AwaitInFlight(1) // the permits are free: the one behind has got one
		require.Equal(t, before+permits+1, p.Report().Received, "nothing that waited has been sent")
		requireCancelled(t, s, behind, time.Second+heartbeat)
		p.AwaitInFlight(0)
	})
	t.Run("queued, while every runner sleeps", func(t *testing.T) {
		s := s.For(t)
		s.Pause(serve.StepRunner)
		run := start(t, s, "cancelled_ask", "[queued]")
		awaitStep(t, s, run, "queued", 1)
		requireCancelled(t, s, run, time.Second)
		s.Signal(serve.StepRunner, syscall.SIGCONT)
	})
	requireNothingLeft(t, s)
	sent := p.Report().Received
	before := s.Record()
	s.Terminate()
	s.AwaitEnded(before)
	s.Up()
	quiet(t, s)
	require.Equal(t, sent, p.Report().Received, "requests after the cancels and a restart of everything")
	for _, run := range cancelled {
		state, err := s.Run(run)
		require.NoError(t, err)
		require.Equal(t, "cancelled", state.Status)
	}
	requireNothingLeft(t, s)
}
