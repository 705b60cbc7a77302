package sim_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/sim"
)

// TestSeeds simulates as many seeds as fit into some seconds: every promise is kept in each, and everything that may go
// wrong does.
func TestSeeds(t *testing.T) {
	const batch, most = 500, 4000
	limit := 15 * time.Second
	if testing.Short() {
		limit = 3 * time.Second
	}
	began := time.Now()
	var seen sim.Coverage
	seeds := 0
	for ; seeds < most && time.Since(began) < limit; seeds += batch {
		many := sim.RunMany(uint64(seeds), batch, "", 1) //nolint:gosec // never negative
		for _, r := range many.Failed {
			t.Fatalf("seed %d: %v\nreplay: %s", r.Seed, r.Failure, sim.Replay(r.Seed, ""))
		}
		seen.Sum(&many.Seen)
	}
	t.Logf("%d seeds", seeds)
	if seeds >= 2000 { // some things are rare
		require.Empty(t, seen.Never(), "never happened in %d seeds", seeds)
	}
}

// TestSameSeedSameTrace simulates seeds twice: everything happens in the same way, also when it is traced.
func TestSameSeedSameTrace(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		once, again := sim.Run(sim.Options{Seed: seed}), sim.Run(sim.Options{Seed: seed})
		require.Equal(t, once, again, sim.Replay(seed, ""))
		var one, two bytes.Buffer
		traced := sim.Run(sim.Options{Seed: seed, Trace: &one})
		sim.Run(sim.Options{Seed: seed, Trace: &two})
		require.Equal(t, once, traced)
		require.True(t, bytes.Equal(one.Bytes(), two.Bytes()), sim.Replay(seed, ""))
	}
	require.NotEqual(t, sim.Run(sim.Options{Seed: 1}).Digest, sim.Run(sim.Options{Seed: 2}).Digest)
}
