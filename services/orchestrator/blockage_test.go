package orchestrator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/testkit"
)

// blocked waits until a run does not move for the reason of the code, and returns all that is said about it; without a code
// until it moves.
func (r *replica) blocked(run uuid.UUID, code string) *pawlv1.Blockage {
	r.t.Helper()
	var found *pawlv1.Blockage
	testkit.Eventually(r.t, patience, func() error {
		if found = r.run(run).GetBlockage(); found.GetCode() != code {
			return fmt.Errorf("the blockage is %v, not %q", found, code)
		}
		return nil
	})
	return found
}

// waiting is a hold whose step has waited for a permit of the limit.
func (w *work) waiting(limit string, waited time.Duration) *systemv1.Hold {
	return &systemv1.Hold{
		Step: w.Hold.GetStep(), Fence: w.GetFence(), ClaimNo: w.Hold.GetClaimNo(),
		AwaitedPermit: &systemv1.AwaitedPermit{Limit: limit, Waited: durationpb.New(waited)},
	}
}

// A run whose step waits for a permit says so, and of which limit and since when, for as long as its runner does.
func TestARunThatWaitsForAPermitSaysSo(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(asking)
	n := r.newRunner()
	run, other := r.create("asking", `{"text": 1}`), r.create("asking", `{"text": 1}`)
	works := map[uuid.UUID]*work{}
	for range 2 {
		w := n.take()
		works[runOf(w.Hold.GetStep())] = w
	}
	require.Nil(t, r.run(run).GetBlockage(), "it is in work")
	n.beat(works[run].waiting("openai/gpt", time.Minute), works[other].Hold)
	b := r.blocked(run, "permit_wait")
	require.Equal(t, "first", b.GetStep())
	require.Contains(t, b.GetSentence(), "openai/gpt")
	require.WithinDuration(t, time.Now().Add(-time.Minute), b.GetSince().AsTime(), 10*time.Second)
	var deadline time.Time
	r.scan(`SELECT deadline_at FROM core.pipeline_run WHERE id = $1`, []any{run}, &deadline)
	require.WithinDuration(t, deadline, b.GetAutoResolvesAt().AsTime(), time.Millisecond, "at the latest")
	require.Nil(t, r.run(other).GetBlockage())

	listed, err := r.client.ListRuns(t.Context(), &systemv1.ListRunsRequest{Tenant: tenant, Query: &pawlv1.ListRunsRequest{}})
	require.NoError(t, err)
	codes := map[string]string{}
	for _, each := range listed.GetRuns() {
		codes[each.GetRunId()] = each.GetBlockage().GetCode()
	}
	require.Equal(t, map[string]string{run.String(): "permit_wait", other.String(): ""}, codes)

	n.beat(works[run].Hold, works[other].Hold)
	require.Nil(t, r.run(run).GetBlockage(), "the permit is there")
	n.beat(works[run].waiting("openai/gpt", time.Minute), works[other].Hold)
	n.stored(works[run].failed(systemv1.Outcome_FAILURE_CLASS_TRANSIENT, "provider_503"))
	r.blocked(run, "retry_wait")
	again := n.claimAgain(run)
	require.Nil(t, r.run(run).GetBlockage(), "what an earlier claim waited for is over")
	n.stored(again.succeeded(`1`))
	require.Nil(t, r.run(run).GetBlockage())
}

// claimAgain lets the backoff of a run's step end, and claims it.
func (n *runner) claimAgain(run uuid.UUID) *work {
	n.t.Helper()
	n.exec(`UPDATE core.step_live SET due_at = now() WHERE run_id = $1`, run)
	return n.take()
}

// A run whose runner is gone says so until another one has its step.
func TestARunWhoseRunnerIsGoneSaysSo(t *testing.T) {
	t.Parallel()
	const length = 4 * time.Second
	r := setup(t, lease(length))
	r.register(chain)
	dead, living := r.newRunner(), r.newRunner()
	alive := living.keepAlive()
	run := r.create("chain", `{"text": 1}`)
	dead.beat(dead.take().waiting("openai/gpt", time.Second))
	var until time.Time
	r.scan(`SELECT lease_until FROM core.runner WHERE instance = $1`, []any{dead.id}, &until)
	b := r.blocked(run, "worker_lost")
	require.Equal(t, "first", b.GetStep())
	require.WithinDuration(t, until, b.GetSince().AsTime(), time.Millisecond)
	w := living.take()
	alive.hold(w.Hold)
	require.Nil(t, r.run(run).GetBlockage())
}

// Every other reason for which a run can stand still today is told, with what happens by itself, and when.
func TestWhyRunsStandStill(t *testing.T) {
	t.Parallel()
	transient, permanent, budget := systemv1.Outcome_FAILURE_CLASS_TRANSIENT, systemv1.Outcome_FAILURE_CLASS_PERMANENT, systemv1.Outcome_FAILURE_CLASS_BUDGET
	parked := func(w *work, reason string) *systemv1.Outcome {
		o := w.outcome()
		o.Result = &systemv1.Outcome_Parked_{Parked: &systemv1.Outcome_Parked{Until: durationpb.New(time.Minute), Reason: reason}}
		return o
	}
	for code, c := range map[string]struct {
		outcome func(w *work) *systemv1.Outcome // nil: it is not claimed
		at      string                          // SQL of when it passes by itself; empty: it does not
		then    string
	}{
		"dispatch":        {nil, "(SELECT deadline_at FROM core.pipeline_run)", "the run ends: deadline_exceeded"},
		"retry_wait":      {func(w *work) *systemv1.Outcome { return w.failed(transient, "provider_503") }, "due_at", "the step runs again"},
		"provider_paused": {func(w *work) *systemv1.Outcome { return parked(w, "quota_exhausted") }, "due_at", "the step runs again"},
		"review":          {func(w *work) *systemv1.Outcome { return w.failed(permanent, "schema_mismatch") }, "", ""},
		"budget":          {func(w *work) *systemv1.Outcome { return w.failed(budget, "budget_exceeded") }, "", ""},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			r.register(strings.ReplaceAll(chain, "name: first, ", "name: first, on_error: review, retry: {max_attempts: 3, initial: 1m}, "))
			run := r.create("chain", `{"text": 1}`)
			if c.outcome != nil {
				n := r.newRunner()
				n.stored(c.outcome(n.take()))
			}
			b := r.blocked(run, code)
			require.Equal(t, "first", b.GetStep())
			require.NotEmpty(t, b.GetSentence())
			require.NotEmpty(t, b.GetSuggestedAction())
			require.Equal(t, c.then, b.GetThen())
			if c.at == "" {
				require.Nil(t, b.GetAutoResolvesAt())
				return
			}
			var at time.Time
			r.scan(`SELECT `+c.at+` FROM core.step_live WHERE run_id = $1`, []any{run}, &at)
			require.WithinDuration(t, at, b.GetAutoResolvesAt().AsTime(), time.Millisecond)
		})
	}
}
