package fairness

import (
	"testing"
	"time"

	"pawl.internal/e2e/harness"
)

// BenchmarkPeopleBesideABatch measures how long interactive runs take while a batch of 1 000 documents uses all that the model's
// limit allows, against what they take when nothing else is there. Run it with -benchtime 1x.
func BenchmarkPeopleBesideABatch(b *testing.B) {
	provider := harness.StartProvider(b, "--latency", latency.String())
	system := harness.Start(b, harness.Config{Provider: provider, Concurrency: concurrency})
	people(b, system, 10, 50*time.Millisecond) // caches and connections fill
	for b.Loop() {
		var idle, loaded []time.Duration
		for range pairs {
			idle = append(idle, quantile(people(b, system, 40, 150*time.Millisecond), 0.95))
			batch := system.UploadBatch(pipeline, 1000, document)
			provider.AwaitInFlight(concurrency)
			loaded = append(loaded, quantile(people(b, system, 40, 150*time.Millisecond), 0.95))
			system.CancelBatch(batch)
		}
		b.ReportMetric(float64(median(idle).Milliseconds()), "idle-p95-ms")
		b.ReportMetric(float64(median(loaded).Milliseconds()), "beside-a-batch-p95-ms")
		b.ReportMetric(median(loaded).Seconds()/median(idle).Seconds(), "ratio")
	}
}
