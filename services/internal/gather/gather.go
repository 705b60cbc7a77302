// Package gather commits events in groups: a commit costs an fsync, so events that arrive while one commit is under way
// share the next.
//
// Events go to lanes by hash, and a lane commits one group at a time. An idle lane starts a group with the first event at
// once; while it commits, the next group gathers behind it. So a caller alone waits for one commit, and many callers
// together still pay one commit per group. A caller is answered only after its group's commit.
//
// One caller's bad event never fails its neighbours: a group that fails is split in halves down to the guilty event. Only
// when the store itself is away, or the fate of a commit is unknown, does the whole group get the error.
package gather

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"pawl.internal/services/internal/fault"
)

// The defaults of Config.
const (
	DefaultLanes     = 4
	DefaultMaxEvents = 300
	DefaultMaxBytes  = 4 << 20
	DefaultDrain     = 10 * time.Second
)

// backlogGroups is how many full groups may wait in a lane before Submit blocks.
const backlogGroups = 4

// Config says how events of type E are grouped and committed. E is usually a pointer, and the event carries its own result.
type Config[E any] struct {
	// Lanes is the number of groups that may commit at the same time; 0 means DefaultLanes.
	Lanes int
	// MaxEvents and MaxBytes close a group; 0 means the defaults. An event of MaxBytes or more is a group of its own.
	MaxEvents int
	MaxBytes  int
	// Drain bounds, after Run's context has ended, the commits of what is still queued; 0 means DefaultDrain.
	Drain time.Duration
	// Lane hashes an event: events of equal hash never commit concurrently, and those of equal kind too commit in the order
	// in which they were queued. It may be nil when Lanes is 1.
	Lane func(E) uint64
	// Kind sorts events: a group holds one kind only, such as durable or asynchronous. Nil: all are of kind 0.
	Kind func(E) int
	// Size returns an event's weight in bytes. Nil: events weigh nothing.
	Size func(E) int
	// Commit carries out a group in one transaction. It may be called again with a part of a group that it failed, so it
	// must overwrite whatever it left in the events. An error with the code UNAVAILABLE or DEADLINE_EXCEEDED fails the whole
	// group; any other is taken for the fault of one event.
	Commit func(ctx context.Context, kind int, group []E) error
}

// Collector gathers events and commits them. Submit and SubmitAll are safe for concurrent use.
type Collector[E any] struct {
	lanes []*lane[E]
	hash  func(E) uint64
	drain time.Duration
}

// New returns a Collector; nothing is committed before Run is called.
func New[E any](cfg Config[E]) *Collector[E] {
	cfg = withDefaults(cfg)
	c := &Collector[E]{lanes: make([]*lane[E], cfg.Lanes), hash: cfg.Lane, drain: cfg.Drain}
	for i := range c.lanes {
		c.lanes[i] = newLane(cfg)
	}
	return c
}

func withDefaults[E any](cfg Config[E]) Config[E] {
	orDefault := func(n *int, def int) {
		if *n == 0 {
			*n = def
		}
	}
	orDefault(&cfg.Lanes, DefaultLanes)
	orDefault(&cfg.MaxEvents, DefaultMaxEvents)
	orDefault(&cfg.MaxBytes, DefaultMaxBytes)
	if cfg.Drain == 0 {
		cfg.Drain = DefaultDrain
	}
	if cfg.Kind == nil {
		cfg.Kind = func(E) int { return 0 }
	}
	if cfg.Size == nil {
		cfg.Size = func(E) int { return 0 }
	}
	return cfg
}

// Run commits groups until ctx ends. Then it refuses new events, commits what is queued, and returns ctx's error. Events
// that are submitted before Run wait for it. It may be called once.
func (c *Collector[E]) Run(ctx context.Context) error {
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var lanes sync.WaitGroup
	for _, l := range c.lanes {
		lanes.Go(func() { l.run(hard) })
	}
	<-ctx.Done()
	for _, l := range c.lanes {
		l.close()
	}
	overdue, stop := context.WithTimeout(hard, c.drain)
	defer stop()
	context.AfterFunc(overdue, cancel)
	lanes.Wait()
	return ctx.Err()
}

// Submit waits until e is committed and returns its error. When ctx ends first, Submit returns a fault that says so, and e
// may still be committed, unless it was not even queued because the lane was full. After Run's context has ended the
// answer is UNAVAILABLE.
func (c *Collector[E]) Submit(ctx context.Context, e E) error {
	t := newTicket(e)
	if err := c.laneOf(e).add(ctx, t); err != nil {
		return err
	}
	return t.wait(ctx)
}

// SubmitAll submits the events together, so that those of one lane share a group as far as they fit, and returns each
// one's error at its index.
func (c *Collector[E]) SubmitAll(ctx context.Context, events []E) []error {
	tickets := make([]*ticket[E], len(events))
	parts := map[*lane[E]][]*ticket[E]{}
	for i, e := range events {
		tickets[i] = newTicket(e)
		l := c.laneOf(e)
		parts[l] = append(parts[l], tickets[i])
	}
	for l, part := range parts {
		if err := l.add(ctx, part...); err != nil {
			answer(part, err)
		}
	}
	errs := make([]error, len(events))
	for i, t := range tickets {
		errs[i] = t.wait(ctx)
	}
	return errs
}

func (c *Collector[E]) laneOf(e E) *lane[E] {
	if len(c.lanes) == 1 {
		return c.lanes[0]
	}
	return c.lanes[c.hash(e)%uint64(len(c.lanes))]
}

// ticket is one event's place in a lane. Its answer arrives once, in a buffered channel, so that nobody has to wait for it.
type ticket[E any] struct {
	event E
	done  chan error
}

func newTicket[E any](e E) *ticket[E] { return &ticket[E]{event: e, done: make(chan error, 1)} }

func (t *ticket[E]) wait(ctx context.Context) error {
	select {
	case err := <-t.done:
		return err
	default:
	}
	select {
	case err := <-t.done:
		return err
	case <-ctx.Done():
		return fault.Of(ctx.Err())
	}
}

func answer[E any](tickets []*ticket[E], err error) {
	for _, t := range tickets {
		t.done <- err
	}
}

// failsWhole reports whether a commit's error concerns every event of its group alike, so that splitting would not help:
// the store is away, its answer did not come in time, or ctx itself has ended.
func failsWhole(ctx context.Context, err error) bool {
	code := fault.CodeOf(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded || ctx.Err() != nil
}

// errClosed answers events that come after the collector has begun to drain.
func errClosed() error {
	return fault.Unavailable(errors.New("collector is draining"), "shutting down")
}
