package failpoints

import (
	"fmt"
	"net/http"
	"syscall"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// load is work that leads to a point. It returns the runs; strike arms the point, and is called when the time has come.
type load func(r *rig, strike func()) (runs []string)

// usual is runs of both classes that fan out, all at once.
func usual(r *rig, strike func()) []string {
	strike()
	return append(r.submit(fan, 3, nil), r.submit(fan, 1, map[string]any{"class": "batch"})...)
}

// single is one run of a pipeline in which at most one call is in flight.
func single(pipeline string) load {
	return func(r *rig, strike func()) []string {
		strike()
		return r.submit(pipeline, 1, nil)
	}
}

// backlog is more runs than the window has room for: the dispatcher has work.
func backlog(r *rig, strike func()) []string {
	strike()
	release := r.hold()
	defer release()
	runs := r.submit(line, 24, nil)
	release()
	return runs
}

// refused is a run whose first question is refused once: a timer brings it back.
func refused(r *rig, strike func()) []string {
	strike()
	r.provider.Inject(simulated.Fault{Kind: "500", Count: 1})
	return r.submit(line, 1, nil)
}

// held is a run whose call is in flight while something happens, and answered after the point has been reached.
func held(more map[string]any, happens func(r *rig, run string)) load {
	return func(r *rig, strike func()) []string {
		release := r.hold()
		defer release()
		runs := r.submit(line, 1, more)
		r.provider.AwaitInFlight(1)
		strike()
		happens(r, runs[0])
		release()
		return runs
	}
}

// The things that happen to a run in a call.
func runnerDies(r *rig, _ string)   { r.Kill(serve.StepRunner) }
func runnerLeaves(r *rig, _ string) { r.Signal(serve.StepRunner, syscall.SIGTERM); r.awaitActed() }
func gatewayDies(r *rig, _ string)  { r.Signal(serve.LLMGateway, syscall.SIGKILL); r.awaitActed() }
func timePasses(r *rig, _ string)   { r.awaitActed() }

func isCancelled(r *rig, run string) {
	harness.Eventually(r.t, func() error {
		answer, err := r.Try(r.Record().REST, http.MethodPost, "/v1/runs/"+run+":cancel", r.Header(""), map[string]any{})
		if err != nil {
			return err
		}
		return answer.Decode(nil)
	})
	r.awaitActed()
}

// unread is runs whose entries were delivered to a runner that dies before it reads them.
func unread(r *rig, strike func()) []string {
	r.Pause(serve.StepRunner)
	runs := r.submit(fan, 4, nil)
	r.awaitDelivered()
	strike()
	r.Kill(serve.StepRunner)
	return runs
}

// forgotten is runs whose entries Redis loses.
func forgotten(r *rig, strike func()) []string {
	r.Pause(serve.StepRunner)
	runs := r.submit(fan, 4, nil)
	r.awaitDelivered()
	require.NoError(r.t, r.Redis.Client.Del(r.t.Context(), r.Streams()...).Err())
	strike()
	r.Kill(serve.StepRunner)
	return runs
}

// awaitDelivered waits until a runner that stands still has been handed entries.
func (r *rig) awaitDelivered() {
	r.t.Helper()
	harness.Eventually(r.t, func() error {
		groups, err := r.Redis.Client.XInfoGroups(r.t.Context(), r.Streams()[0]).Result()
		if err == nil && (len(groups) != 1 || groups[0].Pending == 0) {
			err = fmt.Errorf("nothing was delivered: %+v", groups)
		}
		return err
	})
}
