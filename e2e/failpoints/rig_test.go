package failpoints

import (
	"embed"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/llmgateway/provider/simulated"
)

//go:embed testdata/*.yaml
var sources embed.FS

// The pipelines.
const (
	fan        = "fan"
	line       = "line_retry"
	lineReview = "line_review"
	lineFail   = "line_fail"
)

// rig is a system with failpoints and a provider that counts, for all tests of the package that follow one another.
type rig struct {
	t *testing.T
	*harness.System
	provider *harness.Provider
	points   *harness.Failpoints
	// rule is what is armed.
	rule string
	// submits counts, so that no two runs ask the same.
	submits *atomic.Int64
}

// start runs a system that notices deaths within seconds, and whose runner has so few slots that steps must wait.
func start(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, provider: harness.StartProvider(t), points: harness.NewFailpoints(t), submits: &atomic.Int64{}}
	r.System = harness.Start(t, harness.Config{Provider: r.provider, Failpoints: r.points, Env: []string{
		"PAWL_ORCHESTRATOR_LEASE=2s", "PAWL_LLM_GATEWAY_LEASE=2s", "PAWL_STEP_RUNNER_GRACE=500ms",
		"PAWL_STEP_RUNNER_INTERACTIVE_SLOTS=4", "PAWL_STEP_RUNNER_BATCH_SLOTS=4",
	}})
	r.register("fan.yaml", "")
	for _, policy := range []string{"retry", "review", "fail"} {
		r.register("line.yaml", policy)
	}
	return r
}

func (r *rig) register(file, policy string) {
	r.t.Helper()
	source, err := sources.ReadFile("testdata/" + file)
	require.NoError(r.t, err)
	stored := r.Do(http.MethodPost, "/v1/pipelines", "", map[string]any{
		"source": strings.ReplaceAll(string(source), "POLICY", policy), "file_name": file,
	})
	require.NoError(r.t, stored.Decode(nil))
}

// For is the same rig for a subtest, at whose end nothing is armed any more.
func (r *rig) For(t *testing.T) *rig {
	t.Helper()
	same := *r
	same.t, same.System, same.provider, same.points = t, r.System.For(t), r.provider.For(t), r.points.For(t)
	return &same
}

// submit has runs of a pipeline accepted at the same time, each repeated under its key until it is answered, and returns
// their ids. More is what the requests say beside the pipeline and the input.
func (r *rig) submit(pipeline string, n int, more map[string]any) []string {
	r.t.Helper()
	ids := make([]string, n)
	var clients errgroup.Group
	for i := range ids {
		clients.Go(func() (err error) {
			ids[i], err = r.submitOne(pipeline, more)
			return err
		})
	}
	require.NoError(r.t, clients.Wait())
	return ids
}

func (r *rig) submitOne(pipeline string, more map[string]any) (id string, err error) {
	text := fmt.Sprintf("%s, document %d.", r.t.Name(), r.submits.Add(1))
	return r.Submit(pipeline, text, map[string]any{"text": text}, func(body map[string]any) { maps.Copy(body, more) })
}

// hold keeps the provider from answering until release is called, for the first time.
func (r *rig) hold() (release func()) {
	r.t.Helper()
	return sync.OnceFunc(r.provider.Inject(simulated.Fault{Kind: "hold"}))
}

// awaitActed waits until somebody has come to the point that is armed, and returns which process.
func (r *rig) awaitActed() (pid int) {
	r.t.Helper()
	return r.points.AwaitActed(r.rule)
}

// awaitStarted waits until no service is that process any more, and all are ready.
func (r *rig) awaitStarted(dead int) {
	r.t.Helper()
	harness.Eventually(r.t, func() error {
		if harness.Running(dead) {
			return fmt.Errorf("process %d has not died", dead)
		}
		for name, service := range r.Record().Services {
			if service.PID == dead {
				return fmt.Errorf("%s is still process %d", name, dead)
			}
			if err := harness.Ready(r.t.Context(), service.Admin); err != nil {
				return fmt.Errorf("%s is not ready: %w", name, err)
			}
		}
		return nil
	})
}

// serviceOf is the service that comes to the point of a rule.
func serviceOf(rule string) string {
	if _, match, _ := strings.Cut(strings.TrimSuffix(rule, ")"), "("); slices.Contains(harness.Services(), match) {
		return match
	}
	prefix, _, _ := strings.Cut(rule, ".")
	return map[string]string{
		"intake": serve.Intake, "orchestrator": serve.Orchestrator, "stream": serve.Orchestrator,
		"runner": serve.StepRunner, "gateway": serve.LLMGateway,
	}[prefix]
}
