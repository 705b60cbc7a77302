package intake

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/redisconn"
	"pawl.internal/services/internal/stream"
)

const (
	// eventsBlock is how long one read waits for events, and so how long stopping may take; eventsAnswer is how much longer
	// its answer may take.
	eventsBlock  = 500 * time.Millisecond
	eventsAnswer = 2 * time.Second
	eventsCount  = 1000
	// eventsRetry is the wait after a read that failed.
	eventsRetry = time.Second
)

// wakes tells watchers that something happened to their run. One reader a replica follows the stream of events and hands
// each on to those who watch that run. Events are hints: who gets none looks by itself now and then, more often while
// Redis is away.
type wakes struct {
	redis redis.UniversalClient
	key   string
	clock clock.Clock
	log   *slog.Logger

	mu       sync.Mutex
	watchers map[string]map[chan struct{}]struct{} // guarded by mu; by run id
	reading  bool                                  // guarded by mu; the stream can be read
}

func newWakes(client redis.UniversalClient, prefix string, c clock.Clock, log *slog.Logger) *wakes {
	return &wakes{
		redis: client, key: stream.EventsKey(prefix), clock: c, log: log, watchers: map[string]map[chan struct{}]struct{}{},
	}
}

// subscribe returns a channel that gets a value after something happened to the run. leave ends the subscription.
func (w *wakes) subscribe(run string) (wake <-chan struct{}, leave func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watchers[run] == nil {
		w.watchers[run] = map[chan struct{}]struct{}{}
	}
	w.watchers[run][c] = struct{}{}
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.watchers[run], c)
		if len(w.watchers[run]) == 0 {
			delete(w.watchers, run)
		}
	}
}

// following reports whether events arrive at the moment.
func (w *wakes) following() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reading
}

// run follows the stream until ctx ends.
func (w *wakes) run(ctx context.Context) {
	last := ""
	for ctx.Err() == nil {
		next, err := w.follow(ctx, last)
		w.report(ctx, err)
		last = next
		if err != nil && w.clock.Sleep(ctx, eventsRetry) != nil {
			return
		}
	}
}

// follow reads the events after the last one and wakes their watchers; it returns the last one read.
func (w *wakes) follow(ctx context.Context, last string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, eventsBlock+eventsAnswer)
	defer cancel()
	if last == "" {
		newest, err := w.newest(ctx)
		if err != nil {
			return "", err
		}
		w.report(ctx, nil) // before the long read: from here on no event is missed
		last = newest
	}
	streams, err := w.redis.XRead(ctx, &redis.XReadArgs{
		Streams: []string{w.key, last}, Count: eventsCount, Block: eventsBlock,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return last, nil
	}
	if err != nil {
		return last, redisconn.Fault(err)
	}
	for _, entry := range streams[0].Messages {
		if run, isText := entry.Values[stream.RunField].(string); isText {
			w.wake(run)
		}
		last = entry.ID
	}
	return last, nil
}

// newest is the id after which the first read begins.
func (w *wakes) newest(ctx context.Context) (string, error) {
	entries, err := w.redis.XRevRangeN(ctx, w.key, "+", "-", 1).Result()
	if err != nil {
		return "", redisconn.Fault(err)
	}
	if len(entries) == 0 {
		return "0", nil
	}
	return entries[0].ID, nil
}

// report notes whether the stream can be read. At every change all watchers look for themselves: for what they may have
// missed, and because the interval of their looks changes.
func (w *wakes) report(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reading == (err == nil) {
		return
	}
	w.reading = err == nil
	if err != nil {
		w.log.WarnContext(ctx, "watchers poll: the stream of events cannot be read", "error", err)
	}
	for _, watchers := range w.watchers {
		wakeAll(watchers)
	}
}

func (w *wakes) wake(run string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wakeAll(w.watchers[run])
}

// wakeAll leaves a value in each channel; one that is full already says the same.
func wakeAll(watchers map[chan struct{}]struct{}) {
	for c := range watchers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
