package gather_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pawl.internal/services/internal/gather"
)

const (
	propertyLanes  = 3
	propertyEvents = 5
	propertyBytes  = 50
)

// ledger is a store that checks the promises of the collector on every commit.
type ledger struct {
	mu    sync.Mutex
	busy  map[uint64]bool
	seen  map[string]int // committed events
	order map[string]int // the last sequence number by lane and kind
	wrong []string
}

type numbered struct {
	event
	sequence int
	bad      bool
}

var errBad = errors.New("bad event")

func (l *ledger) commit(_ context.Context, kind int, group []*numbered) error {
	lane := group[0].lane % propertyLanes
	l.enter(lane, kind, group)
	defer l.leave(lane)
	for _, e := range group {
		if e.bad {
			return errBad
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range group {
		l.seen[e.name]++
		key := fmt.Sprint(lane, kind)
		if e.sequence < l.order[key] {
			l.wrong = append(l.wrong, e.name+" was overtaken")
		}
		l.order[key] = e.sequence
	}
	return nil
}

func (l *ledger) enter(lane uint64, kind int, group []*numbered) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy[lane] {
		l.wrong = append(l.wrong, "two commits in one lane")
	}
	l.busy[lane] = true
	size := 0
	for _, e := range group {
		size += e.size
		if e.lane%propertyLanes != lane || e.kind != kind {
			l.wrong = append(l.wrong, e.name+" is in a foreign group")
		}
	}
	if len(group) > propertyEvents || (size > propertyBytes && len(group) > 1) {
		l.wrong = append(l.wrong, "a group is too large")
	}
}

func (l *ledger) leave(lane uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy[lane] = false
}

func TestCollectorKeepsItsPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		l := &ledger{busy: map[uint64]bool{}, seen: map[string]int{}, order: map[string]int{}}
		c := gather.New(gather.Config[*numbered]{
			Lanes: propertyLanes, MaxEvents: propertyEvents, MaxBytes: propertyBytes, Commit: l.commit,
			Lane: func(e *numbered) uint64 { return e.lane }, Kind: func(e *numbered) int { return e.kind },
			Size: func(e *numbered) int { return e.size },
		})
		ctx, cancel := context.WithCancel(context.Background())
		ran := make(chan error, 1)
		go func() { ran <- c.Run(ctx) }()
		batches := rapid.SliceOfN(rapid.SliceOfN(drawEvent(), 0, 30), 1, 6).Draw(r, "batches")
		submitInTurn(r, c, batches)
		cancel()
		require.ErrorIs(r, <-ran, context.Canceled)
		require.Empty(r, l.wrong)
		for _, e := range slices.Concat(batches...) {
			require.Equal(r, !e.bad, l.seen[e.name] == 1, "%s was committed %d times", e.name, l.seen[e.name])
		}
	})
}

func drawEvent() *rapid.Generator[*numbered] {
	return rapid.Custom(func(r *rapid.T) *numbered {
		return &numbered{
			event: event{
				lane: rapid.Uint64().Draw(r, "lane"), kind: rapid.IntRange(0, 1).Draw(r, "kind"),
				size: rapid.IntRange(0, 70).Draw(r, "size"),
			},
			bad: rapid.IntRange(0, 9).Draw(r, "bad") == 0,
		}
	})
}

// submitInTurn submits the batches one after the other, so that their order is known, and waits for all together.
func submitInTurn(r *rapid.T, c *gather.Collector[*numbered], batches [][]*numbered) {
	var sequence atomic.Int64
	for _, batch := range batches {
		for _, e := range batch {
			e.sequence = int(sequence.Add(1))
			e.name = fmt.Sprint(e.sequence)
		}
		for i, err := range c.SubmitAll(context.Background(), batch) {
			require.Equal(r, batch[i].bad, errors.Is(err, errBad), "event %s: %v", batch[i].name, err)
		}
	}
}

func BenchmarkSubmit(b *testing.B) {
	c := gather.New(gather.Config[*event]{Commit: func(context.Context, int, []*event) error { return nil }, Lanes: 1})
	ctx, cancel := context.WithCancel(b.Context())
	ran := make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(p *testing.PB) {
		e := &event{}
		for p.Next() {
			if err := c.Submit(ctx, e); err != nil {
				b.Error(err)
			}
		}
	})
	cancel()
	<-ran
}
