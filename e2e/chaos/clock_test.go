package chaos

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/llmgateway/provider/simulated"
)

const (
	// skew is how wrong the clocks are.
	skew = time.Hour
	// lateness is how late what PostgreSQL's clock decides may be: the looks come once a second, and the machine is busy.
	lateness = 10 * time.Second
)

// skewed is a fleet of which every service has one replica whose clock is an hour ahead and one whose is an hour behind, so
// that any two replicas that compare their clocks are two hours apart.
func skewed(t *testing.T) *harness.Fleet {
	t.Helper()
	return start(t, harness.FleetConfig{
		Failpoints: harness.NewFailpoints(t),
		EnvOf: func(process string) []string {
			if strings.HasSuffix(process, "-1") {
				return []string{"PAWL_CLOCK_OFFSET=" + skew.String()}
			}
			return []string{"PAWL_CLOCK_OFFSET=-" + skew.String()}
		},
	})
}

// TestI04_SkewedClocksChangeNothing runs services whose clocks are wrong: leases, deadlines and backoffs are PostgreSQL's, and
// ages are measured.
func TestI04_SkewedClocksChangeNothing(t *testing.T) {
	full(t)
	f := skewed(t)
	t.Run("work", func(t *testing.T) {
		f := f.For(t)
		requireSkewed(t, f)
		v := endure(t, f, fault{name: "clocks of all services wrong by an hour, ahead and behind", strike: func(t *testing.T, f *harness.Fleet) {
			last(t, 3*lease)
		}})
		require.Zero(t, v.startedAgain, "somebody was taken for dead because of a clock")
	})
	t.Run("deadlines and waits", func(t *testing.T) {
		f := f.For(t)
		const deadline, wait = 3 * time.Second, 2 * time.Second
		before := f.Provider.Report()
		release := f.Provider.Inject(simulated.Fault{Kind: "hold", Contains: "Late."})
		defer release()
		f.Provider.Inject(simulated.Fault{Kind: "500", Contains: "Again.", Count: 1})
		late := submitOnce(t, f, "clock_deadline", fmt.Sprintf(`
deadline: %v
steps:
  - name: ask
    llm: {prompt: "Late."}`, deadline))
		again := submitOnce(t, f, "clock_wait", fmt.Sprintf(`
steps:
  - name: ask
    llm: {prompt: "Again."}
    retry: {max_attempts: 3, initial: %v, factor: 1, max: %v, jitter: 0}`, wait, wait))

		ended := f.API.AwaitEnd(late)
		require.Equal(t, "deadline_exceeded", ended.Reason)
		var lived time.Duration
		require.NoError(t, f.API.DB.QueryRow(t.Context(), "SELECT finished_at - created_at FROM core.pipeline_run WHERE id = $1", late).Scan(&lived))
		requireBetween(t, deadline, deadline+lateness, lived)

		require.Equal(t, "done", f.API.AwaitEnd(again).Status)
		requireBetween(t, wait, wait+lateness, waited(t, f.Provider.Since(before)))
	})
}

// requireSkewed fails unless the clocks are wrong, which ids show that are drawn by time.
func requireSkewed(t *testing.T, f *harness.Fleet) {
	t.Helper()
	run := submitOnce(t, f, "clock_id", `
steps:
  - name: only
    transform: {n: 1}`)
	id, err := uuid.Parse(run)
	require.NoError(t, err)
	seconds, nanoseconds := id.Time().UnixTime()
	drawn := time.Unix(seconds, nanoseconds)
	off := now(t, f).Sub(drawn).Abs()
	require.InDelta(t, skew.Seconds(), off.Seconds(), 60, "the id was drawn at %v", drawn)
	require.Equal(t, "done", f.API.AwaitEnd(run).Status)
}

// submitOnce stores a pipeline with these steps, submits a run of it and returns its id.
func submitOnce(t *testing.T, f *harness.Fleet, pipeline, definition string) string {
	t.Helper()
	source := "name: " + pipeline + "\nversion: v1\ninput: {type: object}" + definition + "\n"
	stored := f.API.Do(http.MethodPost, "/v1/pipelines", "", map[string]any{"source": source, "file_name": pipeline + ".yaml"})
	require.NoError(t, stored.Decode(nil))
	run, err := f.API.Submit(pipeline, pipeline, map[string]any{})
	require.NoError(t, err)
	return run
}

// waited is the time between the two requests, and only two, that asked the same, by the provider's clock.
func waited(t *testing.T, requests []simulated.Record) time.Duration {
	t.Helper()
	asked := map[string][]time.Time{}
	for _, r := range requests {
		asked[r.Fingerprint] = append(asked[r.Fingerprint], r.ReceivedAt)
	}
	for _, at := range asked {
		if len(at) == 2 {
			return at[1].Sub(at[0])
		}
	}
	t.Fatalf("nothing was asked twice: %+v", requests)
	return 0
}

func requireBetween(t *testing.T, least, most, got time.Duration) {
	t.Helper()
	require.GreaterOrEqual(t, got, least)
	require.LessOrEqual(t, got, most)
}
