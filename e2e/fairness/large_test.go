package fairness

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
)

// BenchmarkAHundredThousand uploads a batch of 100 000 items and reports how fast they are taken, what the processes and Redis
// need, and how soon its status is answered while it runs; then how long its cancel takes.
func BenchmarkAHundredThousand(b *testing.B) {
	const items = 100_000
	provider := harness.StartProvider(b, "--latency", "100ms")
	system := harness.Start(b, harness.Config{Provider: provider, Concurrency: 64})
	for b.Loop() {
		empty := redisMemory(b, system)
		began := time.Now()
		batch := system.UploadBatch(pipeline, items, document)
		b.ReportMetric(items/time.Since(began).Seconds(), "accepted/s")

		var looks []time.Duration
		var entries int64
		for range 300 {
			began := time.Now()
			_, err := system.Batch(batch)
			looks = append(looks, time.Since(began))
			require.NoError(b, err)
			for _, stream := range system.Streams() {
				n, err := system.Redis.Client.XLen(b.Context(), stream).Result()
				require.NoError(b, err)
				entries = max(entries, n)
			}
			time.Sleep(50 * time.Millisecond)
		}
		b.ReportMetric(float64(quantile(looks, 0.95).Microseconds())/1000, "status-p95-ms")
		b.ReportMetric(float64(entries), "most-entries")
		b.ReportMetric(redisMemory(b, system)-empty, "redis-MiB")
		for name, service := range system.Record().Services {
			b.ReportMetric(mostMemory(b, service.PID), name+"-MiB")
		}

		began = time.Now()
		state := system.CancelBatch(batch)
		b.ReportMetric(float64(state.Counts.Cancelled)/time.Since(began).Seconds(), "cancelled/s")
		require.Equal(b, items, state.Counts.Done+state.Counts.Cancelled)
	}
}

// mostMemory is the most that a process has had in memory, in MiB, as Linux tells it.
func mostMemory(b *testing.B, pid int) float64 {
	b.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	require.NoError(b, err)
	return figure(b, string(status), "VmHWM:") / 1024
}

// redisMemory is what Redis uses, in MiB.
func redisMemory(b *testing.B, s *harness.System) float64 {
	b.Helper()
	info, err := s.Redis.Client.Info(b.Context(), "memory").Result()
	require.NoError(b, err)
	return figure(b, info, "used_memory:") / (1 << 20)
}

// figure is the number behind a name that begins a line.
func figure(b *testing.B, text, name string) float64 {
	b.Helper()
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name); ok {
			number, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			require.NoError(b, err)
			return number
		}
	}
	require.Fail(b, fmt.Sprintf("%s is not told", name))
	return 0
}
