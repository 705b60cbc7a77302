package gateway

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
)

// durable makes the private PostgreSQL of a benchmark commit to disk.
var durable = []string{"fsync=on", "synchronous_commit=on", "full_page_writes=on"}

// BenchmarkOverhead measures what the gateway adds to a provider's own time, with every request and answer durable, at a
// steady rate of questions; and beside it a bare commit on the same disk. Run it with -benchtime 1x.
func BenchmarkOverhead(b *testing.B) {
	for _, rate := range []int{200, 500} {
		b.Run(fmt.Sprintf("%d_a_second", rate), func(b *testing.B) {
			provider := harness.StartProvider(b, "--latency", "50ms")
			gateways := harness.StartGateways(b, harness.GatewaysConfig{
				Models: models(provider, "concurrency: 512"), PostgresSettings: durable,
			})
			commits := commitTimes(b, gateways.Database.URL)
			for b.Loop() {
				steady(b, gateways.All[0], rate, 3*time.Second) // caches and connections fill
				totals := steady(b, gateways.All[0], rate, 15*time.Second)
				report(b, "overhead", overheads(b, provider, totals))
				report(b, "commit", commits)
			}
		})
	}
}

// steady asks at a rate, whatever the answers take, and returns how long each question took by its key.
func steady(b *testing.B, gateway *harness.Gateway, rate int, length time.Duration) map[string]time.Duration {
	b.Helper()
	totals := map[string]time.Duration{}
	var mu sync.Mutex
	var all sync.WaitGroup
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	for range int(length.Seconds() * float64(rate)) {
		<-ticker.C
		all.Go(func() {
			began := time.Now()
			answer, failed, err := gateway.Ask(b.Context(), harness.Question{}.Request())
			took := time.Since(began)
			if err != nil || failed != nil {
				b.Errorf("not answered: %v %v", failed, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			totals[hex.EncodeToString(answer.GetCallKey())] = took
		})
	}
	all.Wait()
	return totals
}

// overheads subtracts what the provider took, by its own account.
func overheads(b *testing.B, provider *harness.Provider, totals map[string]time.Duration) []time.Duration {
	b.Helper()
	var found []time.Duration
	for _, r := range provider.Report().Requests {
		if total, ok := totals[r.CallKey]; ok {
			found = append(found, total-time.Duration(r.Seconds*float64(time.Second)))
		}
	}
	require.NotEmpty(b, found)
	return found
}

// commitTimes measures durable commits of one row each, one after the other.
func commitTimes(b *testing.B, url string) []time.Duration {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), url)
	require.NoError(b, err)
	defer func() { require.NoError(b, conn.Close(context.WithoutCancel(b.Context()))) }()
	_, err = conn.Exec(b.Context(), `CREATE TABLE commit_time (n integer)`)
	require.NoError(b, err)
	var times []time.Duration
	for n := range 500 {
		began := time.Now()
		_, err := conn.Exec(b.Context(), `INSERT INTO commit_time VALUES ($1)`, n)
		require.NoError(b, err)
		times = append(times, time.Since(began))
	}
	return times
}

// report gives percentiles in milliseconds.
func report(b *testing.B, what string, times []time.Duration) {
	b.Helper()
	slices.Sort(times)
	for _, percent := range []int{50, 95, 99} {
		at := times[min(len(times)-1, len(times)*percent/100)]
		b.ReportMetric(float64(at)/float64(time.Millisecond), fmt.Sprintf("%s-p%d-ms", what, percent))
	}
}

// BenchmarkMemory asks 200 000 questions as fast as they are answered, and reports the gateway's memory after the first
// tenth and at the end.
func BenchmarkMemory(b *testing.B) {
	const tenth = 20_000
	provider := harness.StartProvider(b)
	gateways := harness.StartGateways(b, harness.GatewaysConfig{Models: models(provider, "concurrency: 128")})
	for b.Loop() {
		var sizes []float64
		began := time.Now()
		for range 10 {
			l := &load{gateways: gateways, askers: 128}
			require.NoError(b, l.ask(b.Context(), repeated(harness.Question{}, tenth)))
			require.Empty(b, l.failed)
			sizes = append(sizes, residentMebibytes(b, gateways.All[0].PID()))
		}
		b.ReportMetric(10*tenth/time.Since(began).Seconds(), "calls/s")
		b.ReportMetric(sizes[0], "after-20k-MiB")
		b.ReportMetric(sizes[len(sizes)-1], "after-200k-MiB")
		b.Logf("resident MiB after each 20 000 calls: %.0f", sizes)
	}
}

// residentMebibytes is the memory of a process, as Linux tells it.
func residentMebibytes(b *testing.B, pid int) float64 {
	b.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	require.NoError(b, err)
	for line := range strings.Lines(string(status)) {
		if size, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kibibytes, err := strconv.ParseFloat(strings.Fields(size)[0], 64)
			require.NoError(b, err)
			return kibibytes / 1024
		}
	}
	b.Fatal("the process has no resident memory")
	return 0
}
