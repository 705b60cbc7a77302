package chaos

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/llmgateway/provider/simulated"
)

const (
	// runnerMemory is what a runner may take, in bytes; it needs a third of it.
	runnerMemory = 512 << 20
	// gluttonLosses is how many runners the glutton kills until it is given up.
	gluttonLosses = 3
)

// TestI08_AStepThatEatsItsRunnersEndsAlone limits the memory of the runners, and lets a step take it all, so that they die
// in the middle of whatever else they do. Only the run of that step fails, although others have lost as many runners: on its
// last chance a step is executed apart from others like it.
func TestI08_AStepThatEatsItsRunnersEndsAlone(t *testing.T) {
	full(t)
	points := harness.NewFailpoints(t)
	isRunner := func(process string) bool { return serviceOf(process) == serve.StepRunner }
	f := start(t, harness.FleetConfig{
		Failpoints: points, Fatal: isRunner,
		Wrap: func(process string) []string {
			if !isRunner(process) {
				return nil
			}
			return []string{"prlimit", fmt.Sprintf("--data=%d", runnerMemory)}
		},
	})
	points.Arm("runner.execute(glutton)=allocate(8192)")
	v := endure(t, f, fault{name: "a step eats the memory of its runners", strike: func(t *testing.T, f *harness.Fleet) {
		release := f.Provider.Inject(simulated.Fault{Kind: "hold", Contains: "Second."}) // whoever dies, dies in the middle of calls
		defer release()
		run := submitOnce(t, f, "glutton", fmt.Sprintf(`
steps:
  - name: glutton
    transform: {n: 1}
    max_lost: %d`, gluttonLosses))
		ended := f.API.AwaitEnd(run)
		require.Equal(t, "failed", ended.Status, "%+v", ended)
		require.Equal(t, "worker_lost", ended.Reason, "%+v", ended)
	}})
	require.Positive(t, v.startedAgain, "the runners that died held nothing else")
	deaths := 0
	for _, r := range f.Of(serve.StepRunner) {
		deaths += r.Starts() - 1
	}
	require.Equal(t, gluttonLosses, deaths, "runners that the step has killed")
}
