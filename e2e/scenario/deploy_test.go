package scenario

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// TestDeployStartsNothingOver stops the whole system in the middle of ten contracts, as a deployment does, and starts it
// again: what was under way is handed back without an attempt being counted, and its answers are kept.
func TestDeployStartsNothingOver(t *testing.T) {
	p := harness.StartProvider(t)
	s := harness.Start(t, harness.Config{Provider: p, Env: []string{"PAWL_STEP_RUNNER_GRACE=1s"}})
	all := contracts(t)
	release := p.Inject(simulated.Fault{Kind: "hold", Contains: fieldsPrompt})
	runs := extractAll(t, s, all, "deploy")()
	p.AwaitInFlight(64) // as many as a runner works on at once
	before := s.Record()
	s.Terminate()
	s.AwaitLog("steps handed back")
	release() // the gateway awaits the answers that it has asked for
	s.AwaitEnded(before)

	s.Up()
	for i, id := range runs {
		requireExtracted(t, s, all[i], id)
		for _, step := range s.Steps(id) {
			require.LessOrEqual(t, step.Attempt, 1, "%+v", step)
		}
	}
	requireAskedOnce(t, s, p, 0, runs...)
}

// TestWatchersOutliveIntake kills intake under a gRPC client and a browser that watch a run; both see its end.
func TestWatchersOutliveIntake(t *testing.T) {
	p := harness.StartProvider(t)
	s := harness.Start(t, harness.Config{Provider: p})
	release := p.Inject(simulated.Fault{Kind: "hold", Contains: summaryPrompt})
	run, err := extract(s, contracts(t)[5], "watched")
	require.NoError(t, err)
	p.AwaitInFlight(1)
	client := harness.Launch(t, nil, "runs", "watch", run, "--server", s.Record().GRPC, "--api-key", s.Record().APIKey)
	client.Await(func() error {
		if !strings.Contains(client.Output(), "2/3 steps") {
			return errors.New("the client has seen nothing yet")
		}
		return nil
	})
	browser := watch(t, s, run, "")
	seen, more := browser.next()
	require.True(t, more)

	s.Kill(serve.Intake)
	browser.requireCut()
	back := watch(t, s, run, seen.id)
	release()
	events := back.rest()
	require.NotEmpty(t, events)
	require.Equal(t, "done", events[len(events)-1].run.Status)
	require.NoError(t, client.Wait(harness.Patience))
	require.Contains(t, client.Output(), "SA-2026-548")
}
