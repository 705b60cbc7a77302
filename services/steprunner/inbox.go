package steprunner

import (
	"context"
	"maps"
	"sync"
	"time"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/stream"
	"pawl.internal/services/steprunner/repeat"
)

const (
	// readBlock bounds one blocking read, and with it how long a shutdown waits for an idle lane.
	readBlock = time.Second
	// searchEvery is the time between two looks for entries whose delivery was lost.
	searchEvery = time.Second
	// ackTimeout bounds one acknowledgement.
	ackTimeout = 2 * time.Second
)

// inbox is what one stream has delivered to this runner and what is not deleted yet. Entries are deleted by a goroutine
// of their own, many at a time, so that neither a slot nor an outcome waits for Redis.
type inbox struct {
	stream   *stream.Stream
	consumer string
	clock    clock.Clock
	wake     chan struct{} // holds a token when there may be something to delete
	searched time.Time     // when search was last called; only read uses it

	mu   sync.Mutex
	open map[string]struct{} // guarded by mu; entries delivered and not deleted
	done []string            // guarded by mu; of these, the entries to delete
}

func newInbox(s *stream.Stream, consumer string, c clock.Clock) *inbox {
	return &inbox{
		stream: s, consumer: consumer, clock: c, searched: c.Now(), wake: make(chan struct{}, 1), open: map[string]struct{}{},
	}
}

// read returns at most n entries that are new to this runner; none when none came within readBlock.
func (b *inbox) read(ctx context.Context, n int) ([]stream.Message, error) {
	messages, err := b.search(ctx, n)
	if err == nil && len(messages) == 0 {
		messages, err = b.stream.Read(ctx, b.consumer, n, readBlock)
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range messages {
		b.open[m.ID] = struct{}{}
	}
	return messages, nil
}

// search returns entries that were delivered to this runner without its knowledge, once in a while. When a connection
// breaks, Redis may have handed out entries whose answer is lost (the client repeats a read by itself), and nobody else
// looks for them while this runner lives.
func (b *inbox) search(ctx context.Context, n int) ([]stream.Message, error) {
	now := b.clock.Now()
	if now.Sub(b.searched) < searchEvery {
		return nil, nil
	}
	b.searched = now
	b.mu.Lock()
	known := maps.Clone(b.open)
	b.mu.Unlock()
	pending, err := b.stream.Pending(ctx, b.consumer, n+len(known))
	if err != nil {
		return nil, err
	}
	var unknown []stream.Message
	for _, m := range pending {
		if _, ok := known[m.ID]; !ok && len(unknown) < n {
			unknown = append(unknown, m)
		}
	}
	return unknown, nil
}

// delete acknowledges and deletes entries, soon. Their outcomes are stored, or others answer for their steps.
func (b *inbox) delete(ids ...string) {
	b.mu.Lock()
	b.done = append(b.done, ids...)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// run deletes entries until ctx ends.
func (b *inbox) run(ctx context.Context) error {
	pace := repeat.NewPace(b.clock)
	for {
		for b.flush(ctx) != nil {
			if err := pace.Wait(ctx); err != nil {
				return err
			}
		}
		pace.Reset()
		select {
		case <-b.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// flush deletes what is to be deleted now. After an error it is still to be deleted.
func (b *inbox) flush(ctx context.Context) error {
	b.mu.Lock()
	ids := b.done
	b.done = nil
	b.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	err := b.stream.Ack(ctx, ids...)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.done = append(ids, b.done...)
		return err
	}
	for _, id := range ids {
		delete(b.open, id)
	}
	return nil
}
