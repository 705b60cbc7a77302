package orchestrator_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/testkit"
)

func TestRunThroughItsPipeline(t *testing.T) {
	r := setup(t)
	r.register(chain)
	n := r.newRunner()
	request := r.creation("chain", `{"text": "hello"}`)
	request.EntityId, request.Labels, request.BudgetPicoUsd = "contract-7", map[string]string{"team": "legal"}, pico(5)
	created, err := r.client.CreateRun(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_QUEUED, created.GetStatus())

	first := n.take()
	require.Equal(t, "first", first.Hold.GetStep().GetStep())
	require.JSONEq(t, `{"text":"hello"}`, string(first.GetInput()))
	require.Empty(t, first.GetOutputs())
	require.Equal(t, tenant, first.GetTenant())
	require.Equal(t, "contract-7", first.GetEntityId())
	require.Equal(t, map[string]string{"team": "legal"}, first.GetLabels())
	require.EqualValues(t, 5, first.GetBudgetPicoUsd())
	require.EqualValues(t, 1, first.GetAttempt())
	require.InDelta(t, time.Hour, first.GetDeadlineIn().AsDuration(), float64(time.Minute))
	run := r.run(uuid.MustParse(created.GetRunId()))
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_RUNNING, run.GetStatus())
	require.Equal(t, "first", run.GetCurrentStep())
	n.stored(first.succeeded(`"hello"`))

	second := n.take()
	require.Nil(t, second.GetInput(), "the step does not refer to it")
	require.Equal(t, `"hello"`, string(second.GetOutputs()["first"]))
	n.stored(second.succeeded(`2`))
	third := n.take()
	require.NotNil(t, third.GetInput())
	require.Len(t, third.GetOutputs(), 1)
	const result = `{"all": [1.00, 2]}`
	n.stored(third.succeeded(result))

	run = r.run(uuid.MustParse(created.GetRunId()))
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_DONE, run.GetStatus())
	require.Equal(t, result, run.GetResult().GetJson(), "verbatim")
	require.EqualValues(t, 3, run.GetStepsDone())
	require.Nil(t, run.CurrentStep)
}

func TestFanOutIsHandedOutAndJoined(t *testing.T) {
	r := setup(t)
	r.register(fan)
	n := r.newRunner()
	r.create("fan", `{"parts": [1, 2, 3]}`)
	head := n.take()
	expanded := head.outcome()
	expanded.Result = &systemv1.Outcome_Expanded_{Expanded: &systemv1.Outcome_Expanded{Items: [][]byte{[]byte(`1`), []byte(`2`), []byte(`3`)}}}
	n.stored(expanded)
	shards := map[int32]*work{}
	for range 3 {
		w := n.take()
		shards[w.Hold.GetStep().GetShard()] = w
		require.Nil(t, w.Assignment.GetInput())
		if w.Hold.GetStep().GetShard() == 1 {
			n.stored(w.failed(systemv1.Outcome_FAILURE_CLASS_PERMANENT, "business_rule"))
		} else {
			n.stored(w.succeeded(`{"n": ` + string(w.GetItem()) + `}`))
		}
	}
	require.Equal(t, `3`, string(shards[2].GetItem()))
	whole := n.take()
	require.Equal(t, `[{"n": 1},null,{"n": 3}]`, string(whole.GetOutputs()["parts"]))
}

// One key, submitted a hundred times over two replicas at once, makes one run.
func TestI05_OneKeyOneRunOverTwoReplicas(t *testing.T) {
	stores := newStores(t)
	replicas := []*replica{stores.replica(t), stores.replica(t)}
	replicas[0].register(chain)
	request := replicas[0].creation("chain", `{"text": "x"}`)
	answers := make([]*systemv1.CreateRunResponse, 100)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			var err error
			answers[i], err = replicas[i%2].client.CreateRun(t.Context(), request)
			require.NoError(t, err)
		})
	}
	all.Wait()
	fresh := 0
	for _, a := range answers {
		require.Equal(t, answers[0].GetRunId(), a.GetRunId())
		if !a.GetReplayed() {
			fresh++
		}
	}
	require.Equal(t, 1, fresh)

	other := replicas[1].creation("chain", `{"text": "y"}`)
	other.Idempotency.Key = request.GetIdempotency().GetKey()
	_, err := replicas[1].client.CreateRun(t.Context(), other)
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED), err)
}

func TestRefusedCreations(t *testing.T) {
	r := setup(t)
	r.register(chain)
	for name, c := range map[string]struct {
		change func(*systemv1.CreateRunRequest)
		reason faultv1.ErrorReason
	}{
		"unknown pipeline": {func(q *systemv1.CreateRunRequest) { q.Pipeline = "nothing" }, faultv1.ErrorReason_ERROR_REASON_PIPELINE_NOT_FOUND},
		"unknown version":  {func(q *systemv1.CreateRunRequest) { q.Pipeline = "chain:v2" }, faultv1.ErrorReason_ERROR_REASON_PIPELINE_NOT_FOUND},
		"no JSON":          {func(q *systemv1.CreateRunRequest) { q.Input = []byte(`{"a"`) }, faultv1.ErrorReason_ERROR_REASON_INPUT_INVALID},
		"no input":         {func(q *systemv1.CreateRunRequest) { q.Input = nil }, faultv1.ErrorReason_ERROR_REASON_INPUT_INVALID},
		"bad UTF-8":        {func(q *systemv1.CreateRunRequest) { q.Input = []byte("\"\xff\"") }, faultv1.ErrorReason_ERROR_REASON_INPUT_INVALID},
		"too deep":         {func(q *systemv1.CreateRunRequest) { q.Input = nested(5000) }, faultv1.ErrorReason_ERROR_REASON_INPUT_INVALID},
		"bad document":     {func(q *systemv1.CreateRunRequest) { q.DocumentId = "x" }, faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT},
		"no key":           {func(q *systemv1.CreateRunRequest) { q.Idempotency.Key = "" }, faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT},
	} {
		t.Run(name, func(t *testing.T) {
			request := r.creation("chain", `{}`)
			c.change(request)
			_, err := r.client.CreateRun(t.Context(), request)
			require.True(t, fault.Is(err, c.reason), "%v", err)
		})
	}
	var runs int
	require.NoError(t, r.database.Pool.QueryRow(t.Context(), `SELECT count(*) FROM core.pipeline_run`).Scan(&runs))
	require.Zero(t, runs)
}

func nested(depth int) []byte {
	return []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))
}

// Outputs that cannot be stored end their step with a reason, and what they have cost is kept. Odd ones that are JSON are
// stored verbatim.
func TestOddOutputs(t *testing.T) {
	r := setup(t)
	r.register(chain)
	n := r.newRunner()
	for name, c := range map[string]struct{ output, reason string }{
		"NUL escape":      {output: `"a\u0000b"`},
		"lone surrogate":  {output: `"\ud800"`},
		"duplicate keys":  {output: `{"a":1,"a":2}`},
		"huge number":     {output: `1e400`},
		"depth 1000":      {output: string(nested(1000))},
		"large":           {output: `"` + strings.Repeat("x", 8<<20-2) + `"`},
		"NUL byte":        {"\"a\x00b\"", "json_validation_error"},
		"invalid UTF-8":   {"\"\xff\"", "json_validation_error"},
		"truncated":       {`{"a":`, "json_validation_error"},
		"nothing":         {"", "json_validation_error"},
		"depth 10000":     {string(nested(10_000)), "json_validation_error"},
		"above the limit": {`"` + strings.Repeat("x", 8<<20) + `"`, "output_too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			run := r.create("chain", `{"text": 1}`)
			w := n.take()
			o := w.succeeded(c.output)
			o.Usage = &systemv1.Usage{
				InputTokens: 7, CostPicoUsd: 1_000_000_000, Calls: 1,
				RunSpend: &systemv1.Spend{SpentPicoUsd: 1_000_000_000, Version: 1},
			}
			n.stored(o)
			shown := r.run(run)
			require.Equal(t, "0.001", shown.GetCostSoFarUsd())
			if c.reason != "" {
				require.Equal(t, pawlv1.RunStatus_RUN_STATUS_FAILED, shown.GetStatus())
				require.Equal(t, c.reason, shown.GetReason())
				return
			}
			next := n.take()
			require.Equal(t, c.output, string(next.GetOutputs()["first"]))
			_, err := r.client.CancelRun(t.Context(), &systemv1.CancelRunRequest{Tenant: tenant, RunId: run.String()})
			require.NoError(t, err)
		})
	}
}

// A batch of claims whose documents do not fit into one message is answered in parts.
func TestClaimsThatDoNotFitAreClaimedAgain(t *testing.T) {
	r := setup(t)
	r.register(chain)
	n := r.newRunner()
	input := `{"text": "` + strings.Repeat("x", 900_000) + `"}`
	claims := make([]*systemv1.Claim, 5)
	for range claims {
		r.create("chain", input)
	}
	for i := range claims {
		fence := n.ids.V4()
		claims[i] = &systemv1.Claim{Step: n.next(), Fence: fence[:]}
	}
	sizes := []int{}
	for len(claims) > 0 {
		answer, err := r.client.ClaimSteps(t.Context(), &systemv1.ClaimStepsRequest{RunnerId: n.id[:], Claims: claims})
		require.NoError(t, err)
		var again []*systemv1.Claim
		for i, result := range answer.GetResults() {
			if result.GetStatus() == systemv1.ClaimStatus_CLAIM_STATUS_AGAIN {
				again = append(again, claims[i])
				continue
			}
			require.Equal(t, systemv1.ClaimStatus_CLAIM_STATUS_GRANTED, result.GetStatus())
			require.Equal(t, input, string(result.GetAssignment().GetInput()))
			require.EqualValues(t, 1, result.GetAssignment().GetAttempt())
		}
		sizes = append(sizes, len(claims)-len(again))
		claims = again
	}
	require.Equal(t, []int{2, 2, 1}, sizes, "2 MiB a message")
}

func TestRunnerWithoutALeaseMayNotClaim(t *testing.T) {
	stores := newStores(t)
	one, two := stores.replica(t), stores.replica(t)
	one.register(chain)
	one.create("chain", `{"text": 1}`)
	n := one.newRunner()
	ref := n.next()
	stranger := one.ids.V4()
	_, err := one.client.ClaimSteps(t.Context(), &systemv1.ClaimStepsRequest{
		RunnerId: stranger[:], Claims: []*systemv1.Claim{{Step: ref, Fence: stranger[:]}},
	})
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_STALE_FENCE), err)

	// A lease that one replica has confirmed is known to all.
	n.client = two.client
	_, status := n.claim(ref)
	require.Equal(t, systemv1.ClaimStatus_CLAIM_STATUS_GRANTED, status)
}

func TestHeartbeatSaysWhyToStop(t *testing.T) {
	stores := newStores(t)
	r := stores.replica(t, lease(5*time.Second))
	r.register(chain)
	r.register(strings.Replace(chain, "name: chain\n", "name: hurried\ndeadline: 1s\n", 1))
	r.register(strings.NewReplacer("name: chain", "name: hanging", "name: first, ", "name: first, soft_timeout: 500ms, hard_timeout: 1s, ").Replace(chain))
	n := r.newRunner()

	run := r.create("chain", `{"text": 1}`)
	cancelled := n.take()
	_, err := r.client.CancelRun(t.Context(), &systemv1.CancelRunRequest{Tenant: tenant, RunId: run.String(), Actor: "person:ann", Reason: "wrong"})
	require.NoError(t, err)
	n.requireStop(cancelled, systemv1.StopReason_STOP_REASON_CANCELLED)

	r.create("hurried", `{"text": 1}`)
	n.requireStop(n.take(), systemv1.StopReason_STOP_REASON_DEADLINE)

	r.create("hanging", `{"text": 1}`)
	n.requireStop(n.take(), systemv1.StopReason_STOP_REASON_HARD_TIMEOUT)

	r.create("chain", `{"text": 1}`)
	kept := n.take()
	require.Empty(t, n.beat(kept.Hold))
	n.stored(kept.succeeded(`1`))
	n.requireStop(kept, systemv1.StopReason_STOP_REASON_FENCED)
}

// requireStop sends heartbeats that list the claim until one says that it must be stopped.
func (n *runner) requireStop(w *work, want systemv1.StopReason) {
	n.t.Helper()
	testkit.Eventually(n.t, patience, func() error {
		stops := n.beat(w.Hold)
		if len(stops) == 0 {
			return context.DeadlineExceeded
		}
		require.Equal(n.t, want, stops[0].GetReason())
		require.True(n.t, bytes.Equal(w.GetFence(), stops[0].GetFence()))
		return nil
	})
}

// A runner that is not heard of any more loses its steps, within its lease and a moment; its outcome is refused once
// another has taken over.
func TestStepsOfADeadRunnerGoToOthers(t *testing.T) {
	r := setup(t, lease(time.Second))
	r.register(chain)
	r.create("chain", `{"text": 1}`)
	dead, living := r.newRunner(), r.newRunner()
	lost := dead.take()
	ctx, stop := context.WithCancel(t.Context())
	var heart sync.WaitGroup
	heart.Go(func() {
		_ = clock.Every(ctx, clock.System(), 200*time.Millisecond, func(context.Context) { living.beat() })
	})
	defer heart.Wait()
	defer stop()
	taken := living.take()
	require.Equal(t, lost.Hold.GetStep().GetRunId(), taken.Hold.GetStep().GetRunId())
	require.EqualValues(t, 2, taken.GetAttempt(), "the attempt of the dead runner counts")
	require.False(t, taken.GetLastChance(), "it may lose another worker")
	living.stored(taken.succeeded(`1`))
	require.Equal(t, systemv1.CompleteStatus_COMPLETE_STATUS_STALE, dead.complete(lost.succeeded(`2`)).GetStatus())
}

// TestGrantsThatALeavingRunnerNeverGotAreReleased cuts a runner off from the answer to a claim while it shuts down: it lists
// nothing when it leaves, and the attempt that it never began is not counted.
func TestGrantsThatALeavingRunnerNeverGotAreReleased(t *testing.T) {
	r := setup(t)
	r.register(chain)
	r.create("chain", `{"text": 1}`)
	leaving, staying := r.newRunner(), r.newRunner()
	leaving.take() // it does not know of this
	answer, err := r.client.ReleaseSteps(t.Context(), &systemv1.ReleaseStepsRequest{RunnerId: leaving.id[:], Leaving: true})
	require.NoError(t, err)
	require.EqualValues(t, 1, answer.GetReleased())
	require.EqualValues(t, 1, staying.take().GetAttempt())
}

// TestStepThatKeepsLosingWorkersIsOnItsLastChance tells the runner which steps it must execute apart from each other.
func TestStepThatKeepsLosingWorkersIsOnItsLastChance(t *testing.T) {
	r := setup(t, lease(time.Second))
	r.register(strings.Replace(chain, "{name: first, ", "{name: first, max_lost: 2, ", 1))
	run := r.create("chain", `{"text": 1}`)
	require.False(t, r.newRunner().take().GetLastChance(), "it has lost nobody yet")
	again := r.newRunner()
	ctx, stop := context.WithCancel(t.Context())
	var heart sync.WaitGroup
	heart.Go(func() {
		_ = clock.Every(ctx, clock.System(), 200*time.Millisecond, func(context.Context) { again.beat() })
	})
	taken := again.take()
	require.True(t, taken.GetLastChance())
	stop()
	heart.Wait()
	testkit.Eventually(t, patience, func() error {
		if shown := r.run(run); shown.GetReason() != "worker_lost" {
			return fmt.Errorf("the run is %v", shown)
		}
		return nil
	})
}

func TestReleasedStepsGoToOthers(t *testing.T) {
	r := setup(t)
	r.register(chain)
	r.create("chain", `{"text": 1}`)
	leaving, staying := r.newRunner(), r.newRunner()
	w := leaving.take()
	answer, err := r.client.ReleaseSteps(t.Context(), &systemv1.ReleaseStepsRequest{
		RunnerId: leaving.id[:], Holds: []*systemv1.Hold{w.Hold}, Leaving: true,
	})
	require.NoError(t, err)
	require.EqualValues(t, 1, answer.GetReleased())
	again := staying.take()
	require.EqualValues(t, 1, again.GetAttempt(), "the released attempt is not counted")
	require.EqualValues(t, 2, again.Assignment.GetClaimNo())
	_, err = r.client.ClaimSteps(t.Context(), &systemv1.ClaimStepsRequest{
		RunnerId: leaving.id[:], Claims: []*systemv1.Claim{{Step: w.Hold.GetStep(), Fence: w.GetFence()}},
	})
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_STALE_FENCE), "its lease went with it: %v", err)
	answer, err = r.client.ReleaseSteps(t.Context(), &systemv1.ReleaseStepsRequest{RunnerId: leaving.id[:], Holds: []*systemv1.Hold{w.Hold}})
	require.NoError(t, err)
	require.Zero(t, answer.GetReleased(), "another has it")
}

func TestOutcomesThatAreWrong(t *testing.T) {
	r := setup(t)
	r.register(chain)
	run := r.create("chain", `{"text": 1}`)
	n := r.newRunner()
	w := n.take()

	expanded := w.outcome()
	expanded.Result = &systemv1.Outcome_Expanded_{Expanded: &systemv1.Outcome_Expanded{Items: [][]byte{[]byte(`1`)}}}
	require.Equal(t, systemv1.CompleteStatus_COMPLETE_STATUS_INVALID, n.complete(expanded).GetStatus(), "it is no fan-out")
	stranger := w.succeeded(`1`)
	stranger.Fence, stranger.ClaimNo = n.id[:], 7
	require.Equal(t, systemv1.CompleteStatus_COMPLETE_STATUS_STALE, n.complete(stranger).GetStatus())
	nowhere := w.succeeded(`1`)
	id := n.ids.V7()
	nowhere.Step = &systemv1.StepRef{RunId: id[:], Step: "first", Shard: -1, Generation: 1}
	require.Equal(t, systemv1.CompleteStatus_COMPLETE_STATUS_STALE, n.complete(nowhere).GetStatus())

	n.stored(w.succeeded(`1`))
	require.Equal(t, systemv1.CompleteStatus_COMPLETE_STATUS_ALREADY_STORED, n.complete(w.succeeded(`1`)).GetStatus())
	require.Equal(t, "second", r.run(run).GetCurrentStep())
}

func TestFailureClasses(t *testing.T) {
	r := setup(t)
	r.register(strings.ReplaceAll(chain, "name: first, ", "name: first, retry: {max_attempts: 2, initial: 1ms, jitter: 0}, "))
	n := r.newRunner()

	run := r.create("chain", `{"text": 1}`)
	w := n.take()
	transient := w.failed(systemv1.Outcome_FAILURE_CLASS_TRANSIENT, "provider_503")
	transient.GetFailed().RetryAfter = durationpb.New(time.Millisecond)
	transient.GetFailed().AnswerAtFault, transient.AsksUsed = true, 2
	n.stored(transient)
	w = n.take()
	require.EqualValues(t, 2, w.GetAttempt())
	require.EqualValues(t, 1, w.GetFailures())
	require.EqualValues(t, 2, w.GetAskBase(), "answers that were at fault are not asked for again")
	n.stored(w.failed(systemv1.Outcome_FAILURE_CLASS_TRANSIENT, "provider_503"))
	require.Equal(t, "provider_503", r.run(run).GetReason())

	run = r.create("chain", `{"text": 1}`)
	n.stored(n.take().failed(systemv1.Outcome_FAILURE_CLASS_BUDGET, "budget_exceeded"))
	require.Equal(t, "budget_exceeded", r.run(run).GetReason())
}

func TestRetryOpensAFailedRunAgain(t *testing.T) {
	r := setup(t)
	r.register(chain)
	n := r.newRunner()
	run := r.create("chain", `{"text": 1}`)
	n.stored(n.take().failed(systemv1.Outcome_FAILURE_CLASS_PERMANENT, "content_refused\x00"))
	shown := r.run(run)
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_FAILED, shown.GetStatus())
	require.Equal(t, "content_refused", shown.GetReason())
	require.Equal(t, "in words", shown.GetError())

	retry := &systemv1.RetryRunRequest{Tenant: tenant, RunId: run.String(), Actor: "person:ann", Reason: "again"}
	answer, err := r.client.RetryRun(t.Context(), retry)
	require.NoError(t, err)
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_RUNNING, answer.GetRun().GetStatus())
	_, err = r.client.RetryRun(t.Context(), retry)
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_WRONG_STATE), err)
	n.stored(n.take().succeeded(`1`))
	_, err = r.client.RetryRun(t.Context(), &systemv1.RetryRunRequest{Tenant: "other", RunId: run.String(), Actor: "person:eve", Reason: "again"})
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_RUN_NOT_FOUND), err)
}

func TestSpendIsRecorded(t *testing.T) {
	r := setup(t)
	r.register(chain)
	run := r.create("chain", `{"text": 1}`)
	unknown := r.ids.V7()
	_, err := r.client.RecordSpend(t.Context(), &systemv1.RecordSpendRequest{Runs: []*systemv1.RecordSpendRequest_RunSpend{
		{RunId: unknown[:], Spend: &systemv1.Spend{SpentPicoUsd: 1, Version: 1}},
		{RunId: run[:], Spend: &systemv1.Spend{SpentPicoUsd: 420_000_000_000, Version: 2}},
	}})
	require.NoError(t, err)
	require.Equal(t, "0.42", r.run(run).GetCostSoFarUsd())
}

// Redis being away keeps nobody from submitting, and holds up no answer.
func TestSubmitsWithoutRedis(t *testing.T) {
	server := testkit.PrivateRedis(t)
	stores := newStores(t)
	stores.redis = testkit.KeysAt(t, server.URL())
	r := stores.replica(t)
	r.register(chain)
	server.Stop()
	began := time.Now()
	for range 20 {
		r.create("chain", `{"text": 1}`)
	}
	require.Less(t, time.Since(began), 2*time.Second)
	var queued int
	require.NoError(t, r.database.Pool.QueryRow(t.Context(), `SELECT count(*) FROM core.pipeline_run`).Scan(&queued))
	require.Equal(t, 20, queued)
}
