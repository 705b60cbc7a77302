package orchestrator_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
)

// reviewed is a pipeline whose failures wait for a person.
const reviewed = `
name: reviewed
version: v1
input: {type: object}
budget_usd: "0.50"
steps:
  - {name: first, on_error: review, llm: {route: fast, prompt: "${input.text}"}}
  - {name: second, llm: {route: fast, prompt: "${steps.first.output}"}}
`

func (r *replica) rerun(run uuid.UUID, step string, change ...func(*systemv1.RerunRunRequest)) (*pawlv1.Run, error) {
	req := &systemv1.RerunRunRequest{Tenant: tenant, RunId: run.String(), Actor: "person:ann", Reason: "better model", FromStep: step}
	for _, each := range change {
		each(req)
	}
	answer, err := r.client.RerunRun(r.t.Context(), req)
	return answer.GetRun(), err
}

func (r *replica) retry(run uuid.UUID, change ...func(*systemv1.RetryRunRequest)) (*pawlv1.Run, error) {
	req := &systemv1.RetryRunRequest{Tenant: tenant, RunId: run.String(), Actor: "person:ann", Reason: "looked at it"}
	for _, each := range change {
		each(req)
	}
	answer, err := r.client.RetryRun(r.t.Context(), req)
	return answer.GetRun(), err
}

// requireRefused fails unless the error has the reason and says the words.
func requireRefused(t *testing.T, err error, reason faultv1.ErrorReason, words ...string) {
	t.Helper()
	require.True(t, fault.Is(err, reason), "%v", err)
	for _, each := range words {
		require.ErrorContains(t, err, each)
	}
}

// finish completes every step of a run with its name as output.
func (n *runner) finish(run uuid.UUID, steps ...string) {
	n.t.Helper()
	for _, step := range steps {
		w := n.take()
		require.Equal(n.t, step, w.Hold.GetStep().GetStep())
		require.Equal(n.t, run, runOf(w.Hold.GetStep()))
		n.stored(w.succeeded(`"` + step + `"`))
	}
}

func TestI01_RerunLeavesWhatIsBeforeTheStep(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	n := r.newRunner()
	run := r.create("chain", `{"text": 1}`)
	n.finish(run, "first", "second", "third")
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_DONE, r.run(run).GetStatus())

	again, err := r.rerun(run, "second")
	require.NoError(t, err)
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_RUNNING, again.GetStatus())
	require.EqualValues(t, 1, again.GetStepsDone())
	require.Nil(t, again.GetFinishedAt())
	_, err = r.rerun(run, "second")
	requireRefused(t, err, faultv1.ErrorReason_ERROR_REASON_WRONG_STATE, "running", "cancel it first")
	n.finish(run, "second")
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_RUNNING, r.run(run).GetStatus(), "the third step reads the first only, and needs the second")
	n.finish(run, "third")
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_DONE, r.run(run).GetStatus())

	require.Equal(t, 2, r.count(`core.step_history WHERE run_id = $1 AND generation = 1`, run))
	var generations []int32
	for _, step := range r.steps(run) {
		generations = append(generations, step.GetGeneration())
	}
	require.Equal(t, []int32{1, 2, 2}, generations)
	require.Equal(t, 1, r.count(`core.operator_action WHERE run_id = $1 AND action = 'rerun_from' AND step = 'second' AND reason = 'better model'
		AND before->>'status' = 'done' AND after->>'status' = 'running'`, run))
	require.Equal(t, 1, r.count(`core.run_event WHERE run_id = $1 AND kind = 'rerun_from' AND actor = 'person:ann'`, run))
}

func TestRerunIsRefusedClearly(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	n := r.newRunner()
	run := r.create("chain", `{"text": 1}`)
	n.finish(run, "first")
	n.stored(n.take().failed(systemv1.Outcome_FAILURE_CLASS_PERMANENT, "business_rule"))
	before := r.run(run)
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_FAILED, before.GetStatus())
	_, err := r.rerun(run, "fourth")
	requireRefused(t, err, faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, "from_step", "first, second, third")
	_, err = r.rerun(run, "third")
	requireRefused(t, err, faultv1.ErrorReason_ERROR_REASON_WRONG_STATE, "second has failed", "run it again from there")
	_, err = r.rerun(r.ids.V7(), "first")
	requireRefused(t, err, faultv1.ErrorReason_ERROR_REASON_RUN_NOT_FOUND)
	_, err = r.retry(run, func(req *systemv1.RetryRunRequest) { req.Step = "second" })
	requireRefused(t, err, faultv1.ErrorReason_ERROR_REASON_WRONG_STATE, "as a whole")
	require.True(t, proto.Equal(before, r.run(run)), "a refusal changes nothing")
	require.Zero(t, r.count(`core.operator_action WHERE run_id = $1`, run))
	_, err = r.rerun(run, "second")
	require.NoError(t, err)
}

// Two people see the same state and decide at once: one decision is taken, and the other learns whose.
func TestOneOfTwoDecisionsWins(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	run := r.create("chain", `{"text": 1}`)
	etag := r.run(run).GetEtag()
	errs := make([]error, 10)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			_, errs[i] = r.client.CancelRun(t.Context(), &systemv1.CancelRunRequest{
				Tenant: tenant, RunId: run.String(), Actor: fmt.Sprintf("person:%d", i), Etag: etag,
			})
		})
	}
	all.Wait()
	winner := slices.Index(errs, nil)
	require.GreaterOrEqual(t, winner, 0, "%v", errs)
	for i, err := range errs {
		if i != winner {
			requireRefused(t, err, faultv1.ErrorReason_ERROR_REASON_ETAG_MISMATCH, "cancelled", fmt.Sprintf("person:%d", winner))
		}
	}
	require.Equal(t, 1, r.count(`core.operator_action WHERE run_id = $1`, run))
}

// A decision whose answer was lost can be repeated with the etag that it had: it is answered, and not taken twice.
func TestLostAnswerOfADecisionIsGivenAgain(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	n := r.newRunner()
	run := r.create("chain", `{"text": 1}`)
	n.finish(run, "first", "second", "third")
	etag := r.run(run).GetEtag()
	seen := func(req *systemv1.RerunRunRequest) { req.Etag = etag }
	_, err := r.rerun(run, "third", seen)
	require.NoError(t, err)
	n.finish(run, "third")
	again, err := r.rerun(run, "third", seen)
	require.NoError(t, err)
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_DONE, again.GetStatus(), "it is not run a third time")
	require.EqualValues(t, 2, r.steps(run)[2].GetGeneration())
	require.Equal(t, 1, r.count(`core.operator_action WHERE run_id = $1`, run))

	for name, other := range map[string]func(*systemv1.RerunRunRequest){
		"of another":         func(req *systemv1.RerunRunRequest) { req.Actor = "person:bob" },
		"of another step":    func(req *systemv1.RerunRunRequest) { req.FromStep = "second" },
		"asking for more":    func(req *systemv1.RerunRunRequest) { req.KeepEffects = true },
		"for another reason": func(req *systemv1.RerunRunRequest) { req.Reason = "other" },
	} {
		_, err = r.rerun(run, "third", seen, other)
		requireRefused(t, err, faultv1.ErrorReason_ERROR_REASON_ETAG_MISMATCH, "rerun_from by person:ann")
		require.Contains(t, err.Error(), "done", name)
	}
	_, err = r.rerun(run, "third", func(req *systemv1.RerunRunRequest) { req.Etag = "soon" })
	requireRefused(t, err, faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, "etag")
}

// Who cancels what has ended gets it as it is; a cancel that was repeated is on record once.
func TestCancelOfAnEndedRunChangesNothing(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	n := r.newRunner()
	done := r.create("chain", `{"text": 1}`)
	n.finish(done, "first", "second", "third")
	before := r.run(done)
	r.cancel(done)
	require.True(t, proto.Equal(before, r.run(done)))

	run := r.create("chain", `{"text": 1}`)
	undo := false
	req := &systemv1.CancelRunRequest{Tenant: tenant, RunId: run.String(), Actor: "person:ann", Etag: r.run(run).GetEtag(), Undo: &undo}
	for range 2 {
		answer, err := r.client.CancelRun(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, pawlv1.RunStatus_RUN_STATUS_CANCELLED, answer.GetRun().GetStatus())
	}
	require.Equal(t, 1, r.count(`core.operator_action WHERE run_id = $1 AND after->'asked'->>'undo' = 'false'`, run))
}

// spent completes a step that had no money for its call, in a run that has spent 0.45 of its 0.50.
func (n *runner) spent(w *work) {
	n.t.Helper()
	o := w.failed(systemv1.Outcome_FAILURE_CLASS_BUDGET, "budget_exceeded")
	o.Usage = &systemv1.Usage{RunSpend: &systemv1.Spend{SpentPicoUsd: 450_000_000_000, Version: 7}}
	n.stored(o)
}

// A run without a budget of its own was refused its tenant's money, which is raised elsewhere.
func TestRetryOfARunWithoutABudgetWhenMoneyWasUsedUp(t *testing.T) {
	t.Parallel()
	for name, pipeline := range map[string]string{
		"that has failed": strings.Replace(reviewed, "on_error: review, ", "", 1),
		"that waits":      reviewed,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			r.register(strings.Replace(pipeline, "budget_usd: \"0.50\"\n", "", 1))
			n := r.newRunner()
			run := r.create("reviewed", `{"text": 1}`)
			n.spent(n.take())
			require.Equal(t, "budget_exceeded", r.run(run).GetReason())
			_, err := r.retry(run)
			require.NoError(t, err)
			require.Nil(t, n.take().BudgetPicoUsd)
		})
	}
}

func TestI09_RetryTakesAHigherBudget(t *testing.T) {
	t.Parallel()
	budget := func(amount int64) func(*systemv1.RetryRunRequest) {
		return func(req *systemv1.RetryRunRequest) { req.BudgetPicoUsd = pico(amount) }
	}
	for name, c := range map[string]struct {
		pipeline string
		status   pawlv1.RunStatus
		epoch    int32
	}{
		"of a run that has failed": {
			strings.Replace(reviewed, "on_error: review, ", "", 1), pawlv1.RunStatus_RUN_STATUS_FAILED, 2,
		},
		"of a run that waits": {reviewed, pawlv1.RunStatus_RUN_STATUS_NEEDS_REVIEW, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			r.register(c.pipeline)
			n := r.newRunner()
			run := r.create("reviewed", `{"text": 1}`)
			n.spent(n.take())
			before := r.run(run)
			require.Equal(t, c.status, before.GetStatus())
			require.Equal(t, "budget_exceeded", before.GetReason())

			_, err := r.retry(run)
			requireRefused(t, err, faultv1.ErrorReason_ERROR_REASON_WRONG_STATE, "raise the budget first")
			for _, low := range []int64{0, 450_000_000_000, 500_000_000_000} {
				_, err = r.retry(run, budget(low))
				requireRefused(t, err, faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, "budget_usd", "0.5", "0.45")
			}
			require.True(t, proto.Equal(before, r.run(run)))

			after, err := r.retry(run, budget(900_000_000_000))
			require.NoError(t, err)
			require.Equal(t, "0.9", after.GetBudgetUsd())
			require.Equal(t, "0.45", after.GetCostSoFarUsd(), "what is spent still counts")
			r.told("the money", func(g *gateway) bool {
				return slices.ContainsFunc(g.gates, func(g *systemv1.SetSpendGateRequest_Gate) bool {
					return g.GetOpen() && g.GetEpoch() == c.epoch && g.GetBudgetPicoUsd() == 900_000_000_000
				})
			})
			w := n.take()
			require.EqualValues(t, 900_000_000_000, w.GetBudgetPicoUsd())
			require.Equal(t, c.epoch, w.GetSpendEpoch())
			require.Equal(t, 1, r.count(`core.operator_action WHERE run_id = $1 AND before->>'budget_usd' = '0.5'
				AND after->>'budget_usd' = '0.9'`, run))
		})
	}
}

// Of several shards that wait for a person one can be tried again.
func TestOneShardIsRetried(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(strings.ReplaceAll(fan, "on_error: continue", "on_error: review"))
	n := r.newRunner()
	run := r.create("fan", `{"parts": [1, 2]}`)
	expanded := n.take().outcome()
	expanded.Result = &systemv1.Outcome_Expanded_{Expanded: &systemv1.Outcome_Expanded{Items: [][]byte{[]byte(`1`), []byte(`2`)}}}
	n.stored(expanded)
	for range 2 {
		n.stored(n.take().failed(systemv1.Outcome_FAILURE_CLASS_PERMANENT, "business_rule"))
	}
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_NEEDS_REVIEW, r.run(run).GetStatus())
	_, err := r.retry(run, func(req *systemv1.RetryRunRequest) { req.Step = "whole" })
	requireRefused(t, err, faultv1.ErrorReason_ERROR_REASON_WRONG_STATE, "the step is pending")
	after, err := r.retry(run, func(req *systemv1.RetryRunRequest) { req.Step, req.Shard = "parts", proto.Int32(1) })
	require.NoError(t, err)
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_RUNNING, after.GetStatus())
	require.EqualValues(t, 1, n.take().Hold.GetStep().GetShard())
	require.Equal(t, []string{"parts expanded", "parts[0] needs_review", "parts[1] running", "whole pending"}, outline(r.steps(run)))
	require.Equal(t, 1, r.count(`core.operator_action WHERE run_id = $1 AND step = 'parts' AND shard = 1`, run))
}

// The steps of a run come in pages of any size, each step once and in the same order.
func TestStepsAreListedInPages(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(strings.ReplaceAll(fan, "concurrency: 2", "concurrency: 5"))
	n := r.newRunner()
	run := r.create("fan", `{"parts": [1]}`)
	items := make([][]byte, 7)
	for i := range items {
		items[i] = []byte(`1`)
	}
	expanded := n.take().outcome()
	expanded.Result = &systemv1.Outcome_Expanded_{Expanded: &systemv1.Outcome_Expanded{Items: items}}
	n.stored(expanded)
	n.stored(n.take().succeeded(`"x"`))
	all := outline(r.steps(run))
	require.Len(t, all, 9)
	require.Equal(t, "whole pending", all[8], "a step without a row")
	for size := int32(1); size <= 10; size++ {
		var got []string
		req := &systemv1.ListRunStepsRequest{Tenant: tenant, RunId: run.String(), PageSize: size}
		for more := true; more; {
			page, err := r.client.ListRunSteps(t.Context(), req)
			require.NoError(t, err)
			require.NotEmpty(t, page.GetSteps())
			require.LessOrEqual(t, len(page.GetSteps()), int(size))
			got = append(got, outline(page.GetSteps())...)
			req.PageToken, more = page.GetNextPageToken(), page.GetNextPageToken() != ""
		}
		require.Equal(t, all, got, "pages of %d", size)
	}
	for _, token := range []string{"x", "1", "1.x"} {
		_, err := r.client.ListRunSteps(t.Context(), &systemv1.ListRunStepsRequest{Tenant: tenant, RunId: run.String(), PageToken: token})
		requireRefused(t, err, faultv1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID)
	}
}

func TestI05_SubmissionIsFoundByItsKey(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	creation := r.creation("chain", `{"text": 1}`)
	created, err := r.client.CreateRun(t.Context(), creation)
	require.NoError(t, err)
	find := func(tenant string, i *systemv1.Idempotency) (*systemv1.FindSubmissionResponse, error) {
		return r.client.FindSubmission(t.Context(), &systemv1.FindSubmissionRequest{Tenant: tenant, Idempotency: i})
	}
	found, err := find(tenant, creation.GetIdempotency())
	require.NoError(t, err)
	require.Equal(t, created.GetRunId(), found.GetResourceId())
	require.Equal(t, "run", found.GetKind())
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_QUEUED, found.GetStatus())

	for name, i := range map[string]*systemv1.Idempotency{
		"other": creation.GetIdempotency(), tenant: r.creation("chain", `{}`).GetIdempotency(),
	} {
		found, err = find(name, i)
		require.NoError(t, err)
		require.Empty(t, found.GetResourceId())
	}
	other := proto.CloneOf(creation.GetIdempotency())
	other.RequestDigest[0]++
	_, err = find(tenant, other)
	requireRefused(t, err, faultv1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED, other.GetKey())
}
