package steprunner_test

import (
	"testing"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/steprunner"
)

// BenchmarkTransformSteps is the runner's own share of a durable step: reading, claiming, evaluating, reporting and
// deleting, against an orchestrator that costs nothing.
func BenchmarkTransformSteps(b *testing.B) {
	w := start(b, with(func(c *steprunner.Config) { c.BatchSlots = 64 }))
	digest := w.pipeline(double)
	refs := make([]*systemv1.StepRef, b.N)
	for i := range refs {
		refs[i] = w.add(given{digest: digest, shard: -1, class: batch, input: `{"n":1}`})
	}
	stored := make(chan int, b.N)
	w.orchestrator.set(func(o *orchestrator) {
		o.onComplete = func(req *systemv1.CompleteStepsRequest) error {
			stored <- len(req.GetOutcomes())
			return nil
		}
	})
	b.ResetTimer()
	for begin := 0; begin < b.N; begin += 1000 {
		w.announce(batch, refs[begin:min(begin+1000, b.N)]...)
	}
	for left := b.N; left > 0; {
		left -= <-stored
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
}

// BenchmarkOneStep is the time from a step's entry to its stored outcome when nothing else happens.
func BenchmarkOneStep(b *testing.B) {
	w := start(b)
	digest := w.pipeline(double)
	stored := make(chan struct{}, 1)
	w.orchestrator.set(func(o *orchestrator) {
		o.onComplete = func(*systemv1.CompleteStepsRequest) error {
			stored <- struct{}{}
			return nil
		}
	})
	w.beating(1)
	for b.Loop() {
		w.submit(given{digest: digest, input: `{"n":1}`})
		<-stored
	}
}
