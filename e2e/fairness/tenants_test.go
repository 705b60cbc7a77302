package fairness

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"pawl.internal/e2e/harness"
)

// BenchmarkASmallTenantBesideALargeOne measures how long the 10 documents of one tenant take while 10 000 of another's wait,
// against what they take alone.
func BenchmarkASmallTenantBesideALargeOne(b *testing.B) {
	provider := harness.StartProvider(b, "--latency", latency.String())
	system := harness.Start(b, harness.Config{Provider: provider, Concurrency: concurrency})
	small, large := system.As("small"), system.As("large")
	for b.Loop() {
		var alone, beside []time.Duration
		for range pairs {
			alone = append(alone, slowest(b, small))
		}
		batch := large.UploadBatch(pipeline, 10_000, document)
		provider.AwaitInFlight(concurrency)
		for range pairs {
			beside = append(beside, slowest(b, small))
		}
		large.CancelBatch(batch)
		b.ReportMetric(float64(median(alone).Milliseconds()), "alone-p95-ms")
		b.ReportMetric(float64(median(beside).Milliseconds()), "beside-10000-p95-ms")
		b.ReportMetric(median(beside).Seconds()/median(alone).Seconds(), "ratio")
	}
}

// slowest is what 19 of 20 of a batch of 10 documents do not exceed, from submit to end.
func slowest(b *testing.B, s *harness.System) time.Duration {
	b.Helper()
	batch := s.UploadBatch(pipeline, 10, document)
	s.AwaitBatch(batch)
	return quantile(times(b, s,
		`SELECT extract(epoch FROM finished_at - created_at)::float8 FROM core.pipeline_run WHERE batch_id = $1`, batch), 0.95)
}

// BenchmarkEqualTenants measures how evenly five tenants are served that came one after the other, each with more than can be done
// meanwhile; and what their fairness costs: the same documents as those of one tenant, in the same time.
func BenchmarkEqualTenants(b *testing.B) {
	const tenants, each = 5, 400
	provider := harness.StartProvider(b, "--latency", latency.String())
	system := harness.Start(b, harness.Config{Provider: provider, Concurrency: concurrency})
	for b.Loop() {
		one := rate(b, system, []*harness.System{system.As("alone")}, tenants*each)
		var all []*harness.System
		for i := range tenants {
			all = append(all, system.As(fmt.Sprintf("equal-%d", i)))
		}
		many := rate(b, system, all, each)
		b.ReportMetric(many.evenness, "jain")
		b.ReportMetric(one.perSecond, "one-tenant-runs/s")
		b.ReportMetric(many.perSecond, "five-tenants-runs/s")
		b.ReportMetric(many.perSecond/one.perSecond, "throughput-ratio")
	}
}

// served is how tenants were served while all of them had work.
type served struct{ perSecond, evenness float64 }

// rate lets tenants upload batches, and counts what ended in a window in which none of them could be through.
func rate(b *testing.B, system *harness.System, tenants []*harness.System, each int) served {
	b.Helper()
	const settle, window = 5 * time.Second, 15 * time.Second
	batches := make([]string, len(tenants))
	var uploads sync.WaitGroup
	for i, tenant := range tenants {
		uploads.Go(func() { batches[i] = tenant.UploadBatch(pipeline, each, document) })
	}
	uploads.Wait()
	time.Sleep(settle) // the figure is one of a steady state
	const ended = `SELECT count(*) FROM core.pipeline_run WHERE batch_id = $1 AND status = 'done'`
	before := make([]int, len(tenants))
	for i, batch := range batches {
		before[i] = system.Count(ended, batch)
	}
	time.Sleep(window)
	var sum float64
	shares := make([]float64, len(tenants))
	for i, batch := range batches {
		shares[i] = float64(system.Count(ended, batch) - before[i])
		sum += shares[i]
	}
	for i, tenant := range tenants {
		tenant.CancelBatch(batches[i])
	}
	return served{perSecond: sum / window.Seconds(), evenness: jain(shares)}
}
