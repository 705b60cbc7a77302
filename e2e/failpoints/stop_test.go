package failpoints

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
)

// pause is a point at which a process stands still for longer than its lease, and then goes on as if nothing had happened.
type pause struct {
	rule string
	// meanwhile waits until another replica has drawn its conclusions from the silence.
	meanwhile func(r *rig, run string)
	// unsent is how many requests at least were written down and then not sent: until the lease is renewed, others may be.
	unsent int
	ci     bool
}

func pauses() []pause {
	return []pause{
		// The row is on disk, and another gateway has judged it: with its lease gone this one must not send any more.
		{rule: "gateway.call.recorded", meanwhile: isJudged, unsent: 1, ci: true},
		// The answer is there, and another gateway has judged the request: the late answer is stored, and serves.
		{rule: "gateway.answer.read", meanwhile: isJudged},
		// Another runner has finished the step with the stored answer: the late outcome changes nothing.
		{rule: "runner.complete.begin", meanwhile: hasEnded, ci: true},
		// Another orchestrator has found that the step's entry is missing: the late one is a second entry of the same step.
		{rule: "orchestrator.group.committed(durable)", meanwhile: isAnnounced},
	}
}

func hasEnded(r *rig, run string) { r.AwaitEnd(run) }

func isJudged(r *rig, run string) {
	r.awaitSome("request of unknown fate", `SELECT count(*) FROM llm.llm_try WHERE run_id = $1 AND state = 'ambiguous'`, run)
}

func isAnnounced(r *rig, run string) {
	r.awaitSome("step was found overdue", `SELECT count(*) FROM core.step_live WHERE run_id = $1 AND step = 'last'`, run)
	harness.Eventually(r.t, func() error {
		n, err := r.Redis.Client.XLen(r.t.Context(), r.Streams()[0]).Result()
		if err == nil && n == 0 {
			err = fmt.Errorf("the step's entry has not been added again")
		}
		return err
	})
}

// awaitSome waits until a query about the run counts at least one.
func (r *rig) awaitSome(what, query, run string) {
	r.t.Helper()
	harness.Eventually(r.t, func() error {
		var n int
		err := r.DB.QueryRow(r.t.Context(), query, run).Scan(&n)
		if err == nil && n == 0 {
			err = fmt.Errorf("there is no %s", what)
		}
		return err
	})
}

// TestI06_AProcessThatStoodStillChangesNothing stops a process in the middle of what it does, for longer than its lease. A
// second replica of its service draws its conclusions; when the first goes on, what it does changes nothing any more.
func TestI06_AProcessThatStoodStillChangesNothing(t *testing.T) {
	r := start(t)
	for _, service := range []string{serve.LLMGateway, serve.StepRunner, serve.Orchestrator} {
		r.Serve(service)
	}
	for _, p := range pauses() {
		if p.ci || all() {
			t.Run(p.rule, func(t *testing.T) { r.For(t).standStill(p) })
		}
	}
}

func (r *rig) standStill(p pause) {
	r.t.Helper()
	before := r.provider.Report()
	r.points.Arm(p.rule + "=stop once")
	run := r.submit(line, 1, nil)
	resume := r.points.AwaitStopped(p.rule)
	p.meanwhile(r, run[0])
	resume()
	got := r.settle(before, run, "done")
	r.points.Arm()
	require.Equal(r.t, count{runs: 1, ended: 1, requests: 1, attempts: got.attempts}, got)
	require.Equal(r.t, 2, r.Count(`SELECT count(*) FROM llm.llm_try WHERE run_id = $1 AND state = 'answered'`, run[0]))
	require.LessOrEqual(r.t, p.unsent, r.Count(`SELECT count(*) FROM llm.llm_try WHERE run_id = $1 AND state = 'not_sent'`, run[0]))
}
