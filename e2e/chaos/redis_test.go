package chaos

import (
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
)

// awayVariable is how long Redis is away; 12s if it is not set.
const awayVariable = "PAWL_CHAOS_REDIS_AWAY"

// TestI03_NothingIsLostWithRedis takes from Redis what it holds, and Redis from the system.
//
// Runners have few slots, so that entries wait that nobody has got.
func TestI03_NothingIsLostWithRedis(t *testing.T) {
	f := start(t, harness.FleetConfig{Env: []string{"PAWL_STEP_RUNNER_INTERACTIVE_SLOTS=2", "PAWL_STEP_RUNNER_BATCH_SLOTS=2"}})
	for _, c := range []struct {
		name  string
		short bool
		fault fault
	}{
		{"flushed", true, fault{name: "FLUSHALL, three times", strike: flushed, pace: brisk}},
		{"stream deleted", false, fault{name: "deletion of the streams, three times", strike: streamsDeleted, pace: brisk}},
		{"group deleted", false, fault{name: "deletion of the streams' groups, three times", strike: groupsDeleted, pace: brisk}},
		{"restarted without persistence", false, fault{name: "Redis restarts without persistence, three times", strike: forgetfulRestarts, pace: brisk}},
		{"away", false, fault{name: "Redis is away", strike: away, pace: 500 * time.Millisecond}},
		{"full", false, fault{name: "Redis is full (noeviction)", strike: fullRedis}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !c.short {
				full(t)
			}
			endure(t, f.For(t), c.fault)
		})
	}
}

// often does something that takes entries away, three times, and each time when there are some.
func often(t *testing.T, f *harness.Fleet, do func() error) {
	t.Helper()
	for range 3 {
		awaitEntries(t, f)
		require.NoError(t, do())
	}
}

// awaitEntries waits until there are entries that no runner has got yet.
func awaitEntries(t *testing.T, f *harness.Fleet) {
	t.Helper()
	harness.Eventually(t, func() error {
		for _, stream := range f.API.Streams() {
			groups, err := f.API.Redis.Client.XInfoGroups(t.Context(), stream).Result()
			if err == nil && len(groups) == 1 && groups[0].Lag > 0 {
				return nil
			}
		}
		return errors.New("no stream has an entry that waits")
	})
}

func flushed(t *testing.T, f *harness.Fleet) {
	often(t, f, func() error { return f.API.Redis.Client.FlushAll(t.Context()).Err() })
}

func streamsDeleted(t *testing.T, f *harness.Fleet) {
	often(t, f, func() error { return f.API.Redis.Client.Del(t.Context(), f.API.Streams()...).Err() })
}

func groupsDeleted(t *testing.T, f *harness.Fleet) {
	often(t, f, func() error {
		for _, stream := range f.API.Streams() {
			for _, group := range f.API.Redis.Client.XInfoGroups(t.Context(), stream).Val() {
				if err := f.API.Redis.Client.XGroupDestroy(t.Context(), stream, group.Name).Err(); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// forgetfulRestarts crashes a server of which nothing is on disk.
func forgetfulRestarts(t *testing.T, f *harness.Fleet) {
	for range 3 {
		awaitEntries(t, f)
		require.NoError(t, f.API.Redis.Client.FlushAll(t.Context()).Err()) // its disk forgets too
		f.Redis.Kill()
		require.NoError(t, f.Redis.Start(t.Context()))
	}
}

// away is a Redis that does not come back for a while. Submits are taken meanwhile, intake stays ready and says what is
// missing, and the orchestrators count what they could not publish.
func away(t *testing.T, f *harness.Fleet) {
	during := 12 * time.Second
	if told := os.Getenv(awayVariable); told != "" {
		var err error
		during, err = time.ParseDuration(told)
		require.NoError(t, err, awayVariable)
	}
	require.NoError(t, f.API.Redis.Client.FlushAll(t.Context()).Err()) // its disk forgets too
	dropped := droppedNotices(t, f)
	f.Redis.Kill()
	began := time.Now()
	intake := f.Of(serve.Intake)[0]
	awaitPage(t, intake.Admin+"/healthz", http.StatusServiceUnavailable)
	awaitPage(t, intake.Admin+"/readyz", http.StatusOK)
	awaitDropped(t, f, dropped)
	last(t, during-time.Since(began))
	awaitPage(t, intake.Admin+"/readyz", http.StatusOK)
	require.NoError(t, f.Redis.Start(t.Context()))
	awaitPage(t, intake.Admin+"/healthz", http.StatusOK)
}

// fullRedis is a Redis that refuses whatever needs memory.
func fullRedis(t *testing.T, f *harness.Fleet) {
	client := f.API.Redis.Client
	dropped := droppedNotices(t, f)
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	err := client.Set(t.Context(), "one more", "", 0).Err()
	require.ErrorContains(t, err, "OOM")
	awaitDropped(t, f, dropped)
	last(t, 2*lease)
	awaitPage(t, f.Of(serve.Intake)[0].Admin+"/readyz", http.StatusOK)
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
}

// droppedNotices is how many entries and events the orchestrators could not publish, by their metrics.
func droppedNotices(t *testing.T, f *harness.Fleet) (dropped float64) {
	t.Helper()
	for _, r := range f.Of(serve.Orchestrator) {
		n, err := metric(t, r, "pawl_orchestrator_notices_total", `result="dropped"`)
		require.NoError(t, err)
		dropped += n
	}
	return dropped
}

// awaitDropped waits until the metrics say that more could not be published than before.
func awaitDropped(t *testing.T, f *harness.Fleet, before float64) {
	t.Helper()
	harness.Eventually(t, func() error {
		if droppedNotices(t, f) <= before {
			return errors.New("no metric says that entries could not be published")
		}
		return nil
	})
}
