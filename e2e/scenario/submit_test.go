package scenario

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
)

// TestI05_OneSubmitOneRun sends the same submit a hundred times at once to two replicas of intake.
func TestI05_OneSubmitOneRun(t *testing.T) {
	const clients = 100
	s := harness.Start(t, harness.Config{})
	second := s.Serve(serve.Intake)
	register(t, s, "transform_chain.yaml")
	replicas := []string{s.Record().REST, second}
	body := map[string]any{"pipeline": "transform_chain", "input": map[string]any{"n": 7}}

	answers := make([]harness.Response, clients)
	var group errgroup.Group
	start := make(chan struct{})
	for i := range clients {
		group.Go(func() (err error) {
			<-start
			answers[i], err = s.Try(replicas[i%2], http.MethodPost, "/v1/runs", s.Header("the same"), body)
			return err
		})
	}
	close(start)
	require.NoError(t, group.Wait())

	run, fresh := "", 0
	for _, answer := range answers {
		require.Equal(t, http.StatusAccepted, answer.Status, "%s", answer.Body)
		id, _ := answer.JSON(t)["run_id"].(string)
		require.NotEmpty(t, id)
		if run == "" {
			run = id
		}
		require.Equal(t, run, id)
		if answer.Header.Get("Idempotency-Replayed") == "" {
			fresh++
		}
	}
	require.Equal(t, 1, fresh, "answers that claim to have made the run")
	require.Equal(t, 1, s.Count("SELECT count(*) FROM core.pipeline_run"))
	require.Equal(t, 1, s.Count("SELECT count(*) FROM core.idempotency"))
	require.Equal(t, "done", s.AwaitEnd(run).Status)
	require.Equal(t, 3, s.Count("SELECT count(*) FROM core.pipeline_step_result WHERE run_id = $1", run))

	for i, rest := range replicas {
		body["input"] = map[string]any{"n": 8 + i}
		other, err := s.Try(rest, http.MethodPost, "/v1/runs", s.Header("the same"), body)
		require.NoError(t, err)
		require.Equal(t, http.StatusUnprocessableEntity, other.Status, "%s", other.Body)
		require.Equal(t, "IDEMPOTENCY_KEY_REUSED", other.JSON(t)["reason"])
	}
	require.Equal(t, 1, s.Count("SELECT count(*) FROM core.pipeline_run"))
}

// register stores an example pipeline.
func register(t *testing.T, s *harness.System, file string) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(harness.Root(), "examples", "pipelines", file))
	require.NoError(t, err)
	registerSource(t, s, string(source))
}

// registerSource stores a pipeline.
func registerSource(t *testing.T, s *harness.System, source string) {
	t.Helper()
	stored := s.Do(http.MethodPost, "/v1/pipelines", "", map[string]any{"source": source, "file_name": fmt.Sprintf("%s.yaml", t.Name())})
	require.Contains(t, []int{http.StatusOK, http.StatusCreated}, stored.Status, "%s", stored.Body)
}
