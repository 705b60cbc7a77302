package store_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// BenchmarkSteps measures durable steps per second of runs with three steps: creation, claims and outcomes, as a runner
// with batches of 64 sends them, without streams and gRPC.
func BenchmarkSteps(b *testing.B) {
	const runsAtOnce, batch = 600, 64
	s := setup(b)
	s.chain("chain", 3)
	runs := (b.N + 2) / 3
	s.source = make(chan store.Entry, 4*runsAtOnce)
	var created atomic.Int64
	create := func() {
		if created.Add(1) > int64(runs) {
			return
		}
		n := s.newRun("chain")
		go func() {
			if err := s.store.CreateRun(b.Context(), n); err != nil {
				b.Error(err)
			}
		}()
	}
	b.ResetTimer()
	for range min(runsAtOnce, runs) {
		create()
	}
	var done atomic.Int64
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			worker := s.draw()
			for entries := s.take(batch); len(entries) > 0; entries = s.take(batch) {
				s.work(b, worker, entries)
				for _, e := range entries {
					if e.Step == "c" {
						create()
					}
				}
				if done.Add(int64(len(entries))) == int64(3*runs) {
					close(s.source)
				}
			}
		})
	}
	workers.Wait()
	b.ReportMetric(float64(3*runs)/b.Elapsed().Seconds(), "steps/s")
}

// take waits for entries and returns some; none when there will be no more.
func (b *bench) take(most int) []store.Entry {
	var entries []store.Entry
	if e, ok := <-b.source; ok {
		entries = append(entries, e)
	}
	for len(entries) > 0 && len(entries) < most {
		select {
		case e, ok := <-b.source:
			if !ok {
				return entries
			}
			entries = append(entries, e)
		default:
			return entries
		}
	}
	return entries
}

// work claims the steps and ends them.
func (b *bench) work(t testing.TB, worker machine.ID, entries []store.Entry) {
	claims := make([]*store.Event, len(entries))
	holds := make([]held, len(entries))
	for i, entry := range entries {
		fence := b.draw()
		holds[i] = held{Ref: entry.Ref, fence: fence, worker: worker}
		claims[i] = &store.Event{Ref: entry.Ref, Claim: true, Make: func(r machine.Ref, _ time.Time) machine.Event {
			return machine.Claimed{Ref: r, Fence: fence, Worker: worker}
		}}
	}
	for i, err := range b.store.Submit(t.Context(), claims...) {
		require.NoError(t, err)
		require.Equal(t, machine.Granted, claims[i].Answer)
		holds[i].claimNo = claims[i].Grant.Row.ClaimNo
	}
	outcomes := make([]*store.Event, len(entries))
	for i, h := range holds {
		outcomes[i] = b.succeed(h, `{"section":"termination","parties":["a","b"],"amount":12500.5,"currency":"EUR","text":"Each party may end the contract with a notice of three months to the end of a quarter, in writing, to the address that the other party has named last; payments that are due until then are not affected by the end of the contract."}`)
	}
	for _, err := range b.store.Submit(t.Context(), outcomes...) {
		require.NoError(t, err)
	}
}

// BenchmarkAlone measures how long a single step takes when nothing else happens: its claim, which does not wait for the
// disk, and its outcome, which does.
func BenchmarkAlone(b *testing.B) {
	s := setup(b)
	s.chain("chain", 1)
	var claims, outcomes time.Duration
	for b.Loop() {
		ref := s.next(s.create("chain"))
		began := time.Now()
		h := s.grant(ref)
		claimed := time.Now()
		s.submit(s.succeed(h, `{"n":1}`))
		claims, outcomes = claims+claimed.Sub(began), outcomes+time.Since(claimed)
	}
	b.ReportMetric(float64(claims.Microseconds())/float64(b.N), "µs/claim")
	b.ReportMetric(float64(outcomes.Microseconds())/float64(b.N), "µs/outcome")
}
