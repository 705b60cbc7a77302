package scenario

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/llmgateway/provider/simulated"
)

const misreadPipeline = `
name: misread
version: v1
steps:
  - name: ask
    llm: {prompt: "Answer ${input.case}"}
    retry: {max_attempts: 1}
`

// A run that failed because an answer could not be read gets it, without asking anybody again, once the answer is read better:
// here the stored answer takes a form that is known, which stands for a reader that knows the form it has.
func TestI02_AMisreadAnswerIsReadAgainAndNotBoughtAgain(t *testing.T) {
	t.Parallel()
	p := harness.StartProvider(t)
	s := harness.Start(t, harness.Config{Provider: p})
	registerSource(t, s, misreadPipeline)
	remove := p.Inject(simulated.Fault{Kind: "not_json"})
	run, err := s.Submit("misread", "misread", map[string]any{"case": 1})
	require.NoError(t, err)
	require.Equal(t, "failed", s.AwaitEnd(run).Status)
	remove()
	asked := p.Report().Received

	record := s.Record()
	reparse := func(more ...string) harness.Result {
		return harness.Run(t, "", append([]string{"calls", "reparse", "--database-url", record.DatabaseURL, "--run", run}, more...)...)
	}
	same := reparse("--apply")
	require.Zero(t, same.Code, "%s", same.Err)
	require.Contains(t, same.Err, "1 answers were read again; 0 differ", "it reads as it did")
	_, err = s.DB.Exec(t.Context(), "UPDATE llm.llm_try SET answer = $2 WHERE run_id = $1", run, []byte(said("It is a catch.").Body))
	require.NoError(t, err)
	shown := reparse()
	require.Contains(t, shown.Out, "json_validation_error -> ")
	require.Contains(t, shown.Err, "1 differ, 0 were corrected")
	require.Contains(t, reparse("--apply").Err, "1 differ, 1 were corrected")

	retried := s.Do(http.MethodPost, "/v1/runs/"+run+":retry", "", map[string]any{"reason": "answers were misread"})
	require.Less(t, retried.Status, 300, "%s", retried.Body)
	s.AwaitRun(run, func(r harness.RunState) bool { return r.Status == "done" })
	require.Equal(t, asked, p.Report().Received, "nobody was asked again")
	call := s.Calls(run)[0]
	require.Equal(t, 1, call.Replays)

	list := harness.Run(t, "", "calls", "list", run, "--data-dir", s.DataDir)
	require.Zero(t, list.Code, "%s", list.Err)
	require.Contains(t, list.Out, call.CallKey)
	raw := harness.Run(t, "", "calls", "show", run, call.CallKey, "--raw", "--data-dir", s.DataDir)
	require.Equal(t, said("It is a catch.").Body, raw.Out, "%s", raw.Err)
	described := harness.Run(t, "", "calls", "show", run, call.CallKey, "--data-dir", s.DataDir)
	for _, word := range []string{"prompt version", "permit wait", "first byte", "latency", "PAWL_E2E_KEY", "corrected", `"content":"Answer 1"`} {
		require.Contains(t, described.Out, word)
	}
	s.Doctor()
}
