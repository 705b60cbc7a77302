package scenario

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// operator decides about one run by commands.
type operator struct {
	t   *testing.T
	s   *harness.System
	run string
}

// runs carries out `pawl runs VERB RUN FLAGS…` and checks its exit code.
func (o *operator) runs(code int, verb string, flags ...string) harness.Result {
	o.t.Helper()
	return pawl(o.t, o.s.DataDir, "", code, append([]string{"runs", verb, o.run}, flags...)...)
}

// says checks the lines of `pawl runs why`: each is a name and what is said under it.
func (o *operator) says(lines ...string) {
	o.t.Helper()
	out := o.runs(0, "why").Out
	for _, line := range lines {
		name, text, _ := strings.Cut(line, ": ")
		require.Regexp(o.t, `(?m)^`+regexp.QuoteMeta(name)+` +`+regexp.QuoteMeta(text)+`$`, out)
	}
}

// offers checks which commands `pawl runs why` names.
func (o *operator) offers(verbs ...string) {
	o.t.Helper()
	var offered []string
	for _, found := range regexp.MustCompile(`(?m)^command +pawl runs ([a-z]+) `+o.run).FindAllStringSubmatch(o.runs(0, "why").Out, -1) {
		offered = append(offered, found[1])
	}
	require.Equal(o.t, verbs, offered)
}

// testOperatorCommands takes one run through all that an operator's commands can say and do: it waits for a retry, is
// cancelled, run again from a step, waits for a person for want of money, and is retried with more.
func testOperatorCommands(t *testing.T, s *harness.System, p *harness.Provider) {
	registerSource(t, s, strings.Replace(fmt.Sprintf(threeQuestions, "0.10", "review"), "three_questions", "by_command", 1))
	p.Inject(simulated.Fault{Kind: "503", Contains: "Question two about by hand", Count: 1})
	o := &operator{t: t, s: s, run: start(t, s, "by_command", "by hand")}

	o.waitsForRetry()
	o.cancels()
	o.rerunsFromStep()
	o.retriesWithMoney()

	require.Equal(t, "cancel_requested: wrong data; rerun_from: right data; operator_retry: worth it", s.Text(
		"SELECT string_agg(action || ': ' || reason, '; ' ORDER BY seq) FROM core.operator_action WHERE run_id = $1", o.run))
	require.Equal(t, map[string]int{"one": 1, "two": 2, "three": 1}, asked(s, o.run))
	pawl(t, s.DataDir, "", 3, "runs", "why", "01890000-0000-7000-8000-000000000001")
	o.runs(5, "why", "--api-key", "pawl_wrong_key")
}

// waitsForRetry is told why the run waits, what happens by itself and when, and what cannot be done now.
func (o *operator) waitsForRetry() {
	o.t.Helper()
	harness.Eventually(o.t, func() error {
		if two := stepNamed(o.t, o.s.Steps(o.run), "two"); two.Status != "backoff" {
			return fmt.Errorf("step two is %s", two.Status)
		}
		return nil
	})
	due := o.s.Text(`SELECT to_char(date_trunc('second', due_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
		FROM core.step_live WHERE run_id = $1 AND step = 'two'`, o.run)
	o.says(
		"run: "+o.run, "status: running", "why: two failed in passing (provider_503) and is tried again.",
		"code: retry_wait", "step: two", "evidence: The provider is overloaded or down for the moment (503).",
		"evidence: 1 of 3 attempts failed", "by itself: the step runs again", "at: "+due,
		"you may: Nothing: it is tried again by itself.",
	)
	o.offers("cancel")
	blockage := harness.Response{Body: []byte(o.runs(0, "why", "--json").Out)}.JSON(o.t)
	require.Equal(o.t, "retry_wait", blockage["code"])
	require.Equal(o.t, "the step runs again", blockage["then"])

	row := `(?m)^` + o.run + ` +by_command:v1 +running +two +1/3 .* retry_wait +\d{4}-`
	list := func(code int, flags ...string) string {
		return pawl(o.t, o.s.DataDir, "", code, append([]string{"runs", "list"}, flags...)...).Out
	}
	require.Regexp(o.t, row, list(0, "--status", "running", "--pipeline", "by_command", "--limit", "1"))
	require.NotContains(o.t, list(0, "--status", "done", "--pipeline", "by_command"), o.run)
	require.NotContains(o.t, list(0, "--entity", "another"), o.run)
	list(2, "--status", "stuck")

	require.Contains(o.t, o.runs(2, "retry").Err, "--reason")
	require.Contains(o.t, o.runs(2, "rerun", "--reason", "again").Err, "--from")
	require.Contains(o.t, o.runs(4, "retry", "--reason", "again").Err, "not possible in state running")
	require.Contains(o.t, o.runs(4, "rerun", "--from", "two", "--reason", "again").Err, "wait until it has ended")
}

// cancels stops the run; to stop it twice is no error.
func (o *operator) cancels() {
	o.t.Helper()
	require.Contains(o.t, o.runs(4, "cancel", "--etag", "1").Err, "has changed since")
	require.Regexp(o.t, `(?m)^status +cancelled +1/3 steps`, o.runs(0, "cancel", "--reason", "wrong data").Out)
	require.Equal(o.t, "cancelled", harness.Response{Body: []byte(o.runs(0, "cancel", "--json").Out)}.JSON(o.t)["status"])
	o.says("status: cancelled", "why: cancelled: wrong data")
	o.offers("rerun")
	require.Contains(o.t, o.runs(4, "retry", "--reason", "again").Err, "run it again from a step instead (rerun)")
}

// rerunsFromStep runs the cancelled run again until its money is short.
func (o *operator) rerunsFromStep() {
	o.t.Helper()
	require.Contains(o.t, o.runs(1, "rerun", "--from", "four", "--reason", "right data").Err, "one, two, three")
	again := o.runs(0, "rerun", "--from", "two", "--reason", "right data")
	require.Regexp(o.t, `(?m)^status +running +1/3 steps`, again.Out)
	require.Contains(o.t, again.Err, "pawl runs watch "+o.run)
	o.s.AwaitRun(o.run, func(r harness.RunState) bool { return r.Status == "needs_review" })
	o.says(
		"status: needs_review", "why: three waits for a person (budget_exceeded).", "code: budget", "step: three",
		"you may: Raise the budget and retry, or close the case.",
	)
	require.Regexp(o.t, `(?m)^needs_review +three: budget_exceeded: `, o.runs(0, "why").Out)
	require.Contains(o.t, o.runs(0, "why").Out, "--budget USD (more than 0.1)")
	o.offers("retry", "rerun", "cancel")
}

// retriesWithMoney raises the budget, and the run ends.
func (o *operator) retriesWithMoney() {
	o.t.Helper()
	require.Contains(o.t, o.runs(4, "retry", "--reason", "again").Err, "raise the budget first")
	require.Contains(o.t, o.runs(1, "retry", "--reason", "again", "--budget", "0.05").Err, "budget_usd")
	require.Contains(o.t, o.runs(4, "retry", "--reason", "again", "--budget", "0.50", "--etag", "1").Err,
		"the last decision about it was rerun_from by key:")
	o.runs(0, "retry", "--reason", "worth it", "--budget", "0.50", "--step", "three")
	require.Equal(o.t, "done", o.s.AwaitEnd(o.run).Status)
	o.says("status: done", "why: It is done: every step has finished.")
	o.offers("rerun")
	require.NotEmpty(o.t, o.runs(0, "watch").Out)
}
