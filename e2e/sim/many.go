package sim

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// Many is what came of many seeds.
type Many struct {
	// Seeds were simulated, and Failed are those that broke a promise, in the order of their seeds.
	Seeds  int
	Failed []Result
	Seen   Coverage
}

// RunMany simulates n seeds from the first on, as many at once as there are processors, until so many have failed.
func RunMany(first uint64, n int, broken Guard, mostFailures int) Many {
	var next, failures atomic.Int64
	var mu sync.Mutex
	var many Many
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for failures.Load() < int64(mostFailures) {
				i := next.Add(1) - 1
				if i >= int64(n) {
					return
				}
				r := Run(Options{Seed: first + uint64(i), Break: broken}) //nolint:gosec // never negative
				mu.Lock()
				many.add(r)
				mu.Unlock()
				if r.Failure != nil {
					failures.Add(1)
				}
			}
		})
	}
	workers.Wait()
	return many
}

func (m *Many) add(r Result) {
	m.Seeds++
	m.Seen.Sum(&r.Seen)
	if r.Failure == nil {
		return
	}
	i := 0
	for i < len(m.Failed) && m.Failed[i].Seed < r.Seed {
		i++
	}
	m.Failed = append(m.Failed[:i:i], append([]Result{r}, m.Failed[i:]...)...)
}

// Replay is the command that shows what happens under a seed.
func Replay(seed uint64, broken Guard) string {
	command := fmt.Sprintf("go run ./e2e/sim/cmd/sim -seed %d -trace", seed)
	if broken != "" {
		command += " -break " + string(broken)
	}
	return command
}
