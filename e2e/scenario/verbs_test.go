package scenario

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
)

// threeQuestions is a pipeline of three questions, each after the one before. The last may cost more than ten cents.
const threeQuestions = `
name: three_questions
version: v1
input: {type: object}
budget_usd: "%s"
steps:
  - name: one
    llm: {prompt: "Question one about ${input.topic}", max_output_tokens: 200}
  - name: two
    llm: {prompt: "Question two about ${input.topic}, after ${steps.one.output}", max_output_tokens: 200}
    retry: {max_attempts: 3, initial: 60s, jitter: 0}
  - name: three
    on_error: %s
    llm: {prompt: "Question three about ${input.topic}, after ${steps.two.output}", max_output_tokens: 60000}
`

// TestOperatorsVerbs decides about runs of one system as operators do.
func TestOperatorsVerbs(t *testing.T) {
	p := harness.StartProvider(t)
	s := harness.Start(t, harness.Config{Provider: p})
	t.Run("TestI01_RerunAsksOnlyFromTheStepOn", func(t *testing.T) { testRerun(t, s.For(t), p.For(t)) })
	t.Run("TestI09_RetryWithAHigherBudget", func(t *testing.T) { testRetryBudget(t, s.For(t), p.For(t)) })
	t.Run("two operators at once", func(t *testing.T) { testTwoOperators(t, s.For(t)) })
	t.Run("on the command line", func(t *testing.T) { testOperatorCommands(t, s.For(t), p.For(t)) })
}

// start submits a run of a pipeline about a topic.
func start(t *testing.T, s *harness.System, pipeline, topic string) string {
	t.Helper()
	id, err := s.Submit(pipeline, "verbs "+topic, map[string]any{"topic": topic})
	require.NoError(t, err)
	return id
}

func verb(s *harness.System, run, name string, body map[string]any) harness.Response {
	return s.Do(http.MethodPost, "/v1/runs/"+run+":"+name, "", body)
}

// asked counts the requests that a run has sent, by step.
func asked(s *harness.System, run string) map[string]int {
	counts := map[string]int{}
	for _, call := range s.Calls(run) {
		counts[call.Step] += len(call.Sent())
	}
	return counts
}

func testRerun(t *testing.T, s *harness.System, p *harness.Provider) {
	registerSource(t, s, fmt.Sprintf(threeQuestions, "1.00", "fail"))
	before := p.Report()
	run := start(t, s, "three_questions", "rerun")
	first := s.AwaitEnd(run)
	require.Equal(t, "done", first.Status, "%+v", first)
	require.Len(t, p.Since(before), 3)
	finished := s.Text("SELECT finished_at::text FROM core.pipeline_step_result WHERE run_id = $1 AND step = 'one'", run)

	again := verb(s, run, "rerun", map[string]any{"from_step": "two", "reason": "a better prompt"})
	require.Equal(t, http.StatusOK, again.Status, "%s", again.Body)
	require.Equal(t, "running", again.JSON(t)["status"])
	second := s.AwaitEnd(run)
	require.Equal(t, "done", second.Status, "%+v", second)
	require.Len(t, p.Since(before), 5, "steps two and three, and no other, are asked again")
	require.Equal(t, map[string]int{"one": 1, "two": 2, "three": 2}, asked(s, run))
	one := stepNamed(t, s.Steps(run), "one")
	require.Equal(t, 1, one.Attempt)
	require.Equal(t, finished, s.Text("SELECT finished_at::text FROM core.pipeline_step_result WHERE run_id = $1 AND step = 'one'", run))
	require.Equal(t, 2, s.Count("SELECT count(*) FROM core.step_history WHERE run_id = $1", run), "the earlier results are kept")
	require.Equal(t, 2, s.Count("SELECT spend_epoch FROM core.pipeline_run WHERE id = $1", run))
	require.Equal(t, s.Text("SELECT trim_scale(sum(cost))::text FROM llm.llm_try WHERE run_id = $1", run), second.CostSoFar.String())
	require.NotEqual(t, first.CostSoFar, second.CostSoFar, "what is spent adds up")
}

func testRetryBudget(t *testing.T, s *harness.System, p *harness.Provider) {
	for name, end := range map[string]struct{ onError, status string }{
		"failed": {"fail", "failed"}, "in review": {"review", "needs_review"},
	} {
		source := strings.Replace(fmt.Sprintf(threeQuestions, "0.10", end.onError), "three_questions", "poor_"+end.onError, 1)
		registerSource(t, s, source)
		before := p.Report()
		run := start(t, s, "poor_"+end.onError, "budget "+end.onError)
		stopped := s.AwaitRun(run, func(r harness.RunState) bool { return r.Status == end.status })
		require.Equal(t, "budget_exceeded", stopped.Reason, name)
		require.Len(t, p.Since(before), 2, "the third call is not even begun")

		refused := verb(s, run, "retry", map[string]any{"reason": "again"})
		require.Equal(t, http.StatusConflict, refused.Status, "%s", refused.Body)
		require.Contains(t, string(refused.Body), "raise the budget first")
		for _, low := range []string{"0.0000001", "0.10"} {
			refused = verb(s, run, "retry", map[string]any{"reason": "again", "budget_usd": low})
			require.Equal(t, http.StatusBadRequest, refused.Status, "%s", refused.Body)
			require.Contains(t, string(refused.Body), "budget_usd")
		}
		raised := verb(s, run, "retry", map[string]any{"reason": "worth it", "budget_usd": "0.50"})
		require.Equal(t, http.StatusOK, raised.Status, "%s", raised.Body)
		done := s.AwaitEnd(run)
		require.Equal(t, "done", done.Status, "%+v", done)
		require.Equal(t, map[string]int{"one": 1, "two": 1, "three": 1}, asked(s, run), "finished steps are not asked again")
		require.Len(t, p.Since(before), 3)
		require.Equal(t, "0.5", s.Text("SELECT trim_scale(budget)::text FROM llm.run_spend WHERE run_id = $1", run))
		require.Equal(t, s.Text("SELECT trim_scale(sum(cost))::text FROM llm.llm_try WHERE run_id = $1", run), done.CostSoFar.String())
	}
}

func testTwoOperators(t *testing.T, s *harness.System) {
	registerSource(t, s, strings.Replace(fmt.Sprintf(threeQuestions, "0.10", "fail"), "three_questions", "contested", 1))
	run := start(t, s, "contested", "two operators")
	require.Equal(t, "failed", s.AwaitEnd(run).Status)
	etag := s.Do(http.MethodGet, "/v1/runs/"+run, "", nil).Header.Get("ETag")
	answers := make([]harness.Response, 2)
	var both sync.WaitGroup
	for i := range answers {
		both.Go(func() {
			header := s.Header("")
			header.Set("If-Match", etag)
			body := map[string]any{"reason": fmt.Sprintf("operator %d", i), "budget_usd": "0.50"}
			answers[i], _ = s.Try(s.Record().REST, http.MethodPost, "/v1/runs/"+run+":retry", header, body)
		})
	}
	both.Wait()
	statuses := []int{answers[0].Status, answers[1].Status}
	winner := slices.Index(statuses, http.StatusOK)
	require.ElementsMatch(t, []int{http.StatusOK, http.StatusConflict}, statuses, "%s %s", answers[0].Body, answers[1].Body)
	lost := answers[1-winner].JSON(t)
	require.Equal(t, "ETAG_MISMATCH", lost["reason"])
	require.Contains(t, lost["detail"], "operator_retry by key:")
	require.Equal(t, "done", s.AwaitEnd(run).Status)
	require.Equal(t, 1, s.Count("SELECT count(*) FROM core.operator_action WHERE run_id = $1", run))
	require.Equal(t, map[string]int{"one": 1, "two": 1, "three": 1}, asked(s, run))
}
