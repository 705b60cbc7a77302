// Package fairness measures, on the whole system, that batches do not disturb people and tenants do not disturb each other:
// the ratios of the promise I10, and what a batch of 100 000 items costs. Its benchmarks report; what CI must hold is asserted
// by the tests of package scenario.
package fairness

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	// pipeline asks a model once.
	pipeline = "llm_completion"
	// latency is what the simulated model takes for an answer, and concurrency how many it is asked for at once.
	latency     = 500 * time.Millisecond
	concurrency = 32
	// pairs is how often idle and loaded runs alternate.
	pairs = 5
)

// letter is an input of the pipeline; each is another one, so that no answer serves twice.
func letter(kind string, n int) map[string]any {
	text := fmt.Sprintf("%s %d of %d", kind, n, time.Now().UnixNano())
	return map[string]any{"model": "default", "messages": []any{map[string]any{"role": "user", "content": text}}, "max_tokens": 50}
}

// document is an item of a batch.
func document(n int) any { return map[string]any{"input": letter("document", n)} }

// people submits interactive runs, one every pause, and returns how long each took from its submit to its end, by
// PostgreSQL's clock.
func people(b *testing.B, s *harness.System, n int, pause time.Duration) []time.Duration {
	b.Helper()
	var ids []string
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for i := range n {
		<-ticker.C
		id, err := s.Submit(pipeline, fmt.Sprintf("person-%d-%d", time.Now().UnixNano(), i), letter("person", i))
		require.NoError(b, err)
		ids = append(ids, id)
	}
	for _, id := range ids {
		require.Equal(b, "done", s.AwaitEnd(id).Status)
	}
	return times(b, s, `SELECT extract(epoch FROM finished_at - created_at)::float8 FROM core.pipeline_run WHERE id = ANY($1)`, ids)
}

// times runs a query that gives seconds.
func times(b *testing.B, s *harness.System, query string, args ...any) (found []time.Duration) {
	b.Helper()
	rows, err := s.DB.Query(b.Context(), query, args...)
	require.NoError(b, err)
	defer rows.Close()
	for rows.Next() {
		var seconds float64
		require.NoError(b, rows.Scan(&seconds))
		found = append(found, time.Duration(seconds*float64(time.Second)))
	}
	require.NoError(b, rows.Err())
	return found
}

// quantile is the value that a share of the values does not exceed.
func quantile[T cmp.Ordered](values []T, share float64) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

func median[T cmp.Ordered](values []T) T { return quantile(values, 0.5) }

// jain is Jain's index of fairness: 1 when all are equal, 1/n when one has everything.
func jain(shares []float64) float64 {
	var sum, squares float64
	for _, s := range shares {
		sum += s
		squares += s * s
	}
	return sum * sum / (float64(len(shares)) * squares)
}
