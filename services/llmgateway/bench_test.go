package llmgateway_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/llmgateway"
)

// BenchmarkGenerate measures whole calls: RPC, permit, two durable groups, a simulated model without latency.
func BenchmarkGenerate(b *testing.B) {
	for _, callers := range []int{1, 16, 128} {
		b.Run(fmt.Sprint(callers, " callers"), func(b *testing.B) {
			w := newBench(b)
			g := w.gateway(func(c *llmgateway.Config) { c.ModelsFile = "" })
			var all sync.WaitGroup
			var next atomic.Int64
			b.ResetTimer()
			for range callers {
				all.Go(func() {
					run := w.ids.V7()
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						q := w.question(run, "What is a pawl? It is a catch that lets a wheel turn forward and never slip back.")
						q.Ask = int32(n)
						s, err := g.ask(b.Context(), q)
						if err != nil || s.answer == nil {
							b.Errorf("%v %v", err, s.failure)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
			require.Equal(b, b.N, one[int](w, "SELECT count(*)::int FROM llm.llm_try"))
		})
	}
}
