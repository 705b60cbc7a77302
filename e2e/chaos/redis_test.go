package chaos

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
)

// awayVariable is how long Redis is away; 12s if it is not set.
const awayVariable = "PAWL_CHAOS_REDIS_AWAY"

// TestI03_NothingIsLostWithRedis takes from Redis what it holds, and Redis from the system.
func TestI03_NothingIsLostWithRedis(t *testing.T) {
	f := start(t, harness.FleetConfig{})
	for _, c := range []struct {
		name  string
		short bool
		fault fault
	}{
		{"flushed", true, fault{name: "FLUSHALL, five times", strike: flushed}},
		{"stream deleted", false, fault{name: "deletion of the streams, five times", strike: streamsDeleted}},
		{"group deleted", false, fault{name: "deletion of the streams' groups, five times", strike: groupsDeleted}},
		{"restarted without persistence", false, fault{name: "Redis restarts without persistence, three times", strike: forgetfulRestarts}},
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

// stepStreams are the keys of the streams of steps.
func stepStreams(f *harness.Fleet) []string {
	return []string{f.API.Redis.Prefix + ":{steps}:interactive", f.API.Redis.Prefix + ":{steps}:batch"}
}

// often does something that takes entries away, five times, and each time when there are some.
func often(t *testing.T, f *harness.Fleet, do func() error) {
	t.Helper()
	for range 5 {
		awaitEntries(t, f)
		require.NoError(t, do())
	}
}

// awaitEntries waits until a stream has an entry.
func awaitEntries(t *testing.T, f *harness.Fleet) {
	t.Helper()
	harness.Eventually(t, func() error {
		for _, stream := range stepStreams(f) {
			if n, err := f.API.Redis.Client.XLen(t.Context(), stream).Result(); err != nil || n > 0 {
				return err
			}
		}
		return errors.New("no stream has an entry")
	})
}

func flushed(t *testing.T, f *harness.Fleet) {
	often(t, f, func() error { return f.API.Redis.Client.FlushAll(t.Context()).Err() })
}

func streamsDeleted(t *testing.T, f *harness.Fleet) {
	often(t, f, func() error { return f.API.Redis.Client.Del(t.Context(), stepStreams(f)...).Err() })
}

func groupsDeleted(t *testing.T, f *harness.Fleet) {
	often(t, f, func() error {
		for _, stream := range stepStreams(f) {
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
	awaitStatus(t, intake.Admin+"/healthz", http.StatusServiceUnavailable)
	awaitStatus(t, intake.Admin+"/readyz", http.StatusOK)
	harness.Eventually(t, func() error {
		if droppedNotices(t, f) <= dropped {
			return errors.New("no metric says that entries could not be published")
		}
		return nil
	})
	last(t, during-time.Since(began))
	awaitStatus(t, intake.Admin+"/readyz", http.StatusOK)
	require.NoError(t, f.Redis.Start(t.Context()))
	awaitStatus(t, intake.Admin+"/healthz", http.StatusOK)
}

// fullRedis is a Redis that refuses whatever needs memory.
func fullRedis(t *testing.T, f *harness.Fleet) {
	client := f.API.Redis.Client
	dropped := droppedNotices(t, f)
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	err := client.Set(t.Context(), "one more", "", 0).Err()
	require.ErrorContains(t, err, "OOM")
	harness.Eventually(t, func() error {
		if droppedNotices(t, f) <= dropped {
			return errors.New("no metric says that entries could not be published")
		}
		return nil
	})
	last(t, 2*lease)
	awaitStatus(t, f.Of(serve.Intake)[0].Admin+"/readyz", http.StatusOK)
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
}

// droppedNotices is how many entries and events the orchestrators could not publish, by their metrics.
func droppedNotices(t *testing.T, f *harness.Fleet) (dropped int) {
	t.Helper()
	for _, r := range f.Of(serve.Orchestrator) {
		page, err := harness.Exchange(t.Context(), http.MethodGet, r.Admin+"/metrics", nil, nil)
		require.NoError(t, err)
		for line := range strings.Lines(string(page.Body)) {
			if strings.HasPrefix(line, "pawl_orchestrator_notices_total{") && strings.Contains(line, `result="dropped"`) {
				fields := strings.Fields(line)
				var n int
				_, err := fmt.Sscan(fields[len(fields)-1], &n)
				require.NoError(t, err, line)
				dropped += n
			}
		}
	}
	return dropped
}

// awaitStatus waits until a page has the status.
func awaitStatus(t *testing.T, url string, want int) {
	t.Helper()
	harness.Eventually(t, func() error {
		page, err := harness.Exchange(t.Context(), http.MethodGet, url, nil, nil)
		if err == nil && page.Status != want {
			err = fmt.Errorf("%s: %d %s", url, page.Status, page.Body)
		}
		return err
	})
}
