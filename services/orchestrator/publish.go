package orchestrator

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/stream"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

const (
	// noticesQueued bounds the groups whose notices wait while Redis is slow or away; what comes then is dropped, and left
	// to the sweeps.
	noticesQueued = 1000
	// publishTime bounds one attempt to publish, and publishPause is the wait after one that failed.
	publishTime  = 2 * time.Second
	publishPause = 200 * time.Millisecond
	// eventsKept is about how many wake-ups the events stream holds: they are hints, of use for seconds.
	eventsKept = 10_000
)

var errQueueFull = errors.New("too many notices wait for Redis")

// publisher tells Redis what committed groups lead to. It is the one place that adds to the streams of steps.
type publisher struct {
	client  redis.UniversalClient
	steps   map[machine.Class]*stream.Stream
	events  string
	clock   clock.Clock
	log     *slog.Logger
	metrics *metrics
	queue   chan store.Notices
}

func newPublisher(client redis.UniversalClient, prefix string, c clock.Clock, log *slog.Logger, m *metrics) *publisher {
	return &publisher{
		client: client,
		steps: map[machine.Class]*stream.Stream{
			machine.Interactive: stream.Steps(client, prefix, string(machine.Interactive)),
			machine.Batch:       stream.Steps(client, prefix, string(machine.Batch)),
		},
		events: stream.EventsKey(prefix), clock: c, log: log, metrics: m, queue: make(chan store.Notices, noticesQueued),
	}
}

// add queues a group's notices. It never waits: a commit must not be held up by Redis.
func (p *publisher) add(n store.Notices) {
	if len(n.Entries)+len(n.Changes) == 0 {
		return
	}
	select {
	case p.queue <- n:
	default:
		p.count(n, errQueueFull)
	}
}

// run publishes until ctx ends, and then what is queued.
func (p *publisher) run(ctx context.Context) error {
	for {
		select {
		case n := <-p.queue:
			p.publish(context.WithoutCancel(ctx), p.more(n))
		case <-ctx.Done():
			if n := p.more(store.Notices{}); len(n.Entries)+len(n.Changes) > 0 {
				p.publish(context.WithoutCancel(ctx), n)
			}
			return ctx.Err()
		}
	}
}

// more adds what else is queued already, so that it shares the round trips.
func (p *publisher) more(n store.Notices) store.Notices {
	for {
		select {
		case next := <-p.queue:
			n.Entries = append(n.Entries, next.Entries...)
			n.Changes = append(n.Changes, next.Changes...)
		default:
			return n
		}
	}
}

// publish tries once. What fails is counted and left to the sweeps: entries are ids that PostgreSQL has too.
func (p *publisher) publish(ctx context.Context, n store.Notices) {
	ctx, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	failpoint.Hit("orchestrator.publish.begin")
	err := errors.Join(p.addEntries(ctx, n.Entries), p.addEvents(ctx, n.Changes))
	failpoint.Hit("orchestrator.publish.end")
	p.count(n, err)
	if err != nil {
		p.log.WarnContext(ctx, "publishing failed, and is left to the sweeps", "entries", len(n.Entries), "error", err)
		_ = p.clock.Sleep(ctx, publishPause) // the next group finds out whether ctx has ended
	}
}

func (p *publisher) count(n store.Notices, err error) {
	p.metrics.noticed("entry", len(n.Entries), err)
	p.metrics.noticed("event", len(n.Changes), err)
}

func (p *publisher) addEntries(ctx context.Context, entries []store.Entry) error {
	byClass := map[machine.Class][]stream.Fields{}
	for _, e := range entries {
		byClass[e.Class] = append(byClass[e.Class], stream.Step{
			Run: e.RunID, Step: e.Step, Shard: int32(e.Shard), Generation: int32(e.Generation),
		}.Fields())
	}
	var errs []error
	for class, fields := range byClass {
		errs = append(errs, p.steps[class].Publish(ctx, fields))
		failpoint.Hit("orchestrator.publish.added")
	}
	return errors.Join(errs...)
}

// addEvents wakes those who wait for news of runs: one entry a run, with its newest state.
func (p *publisher) addEvents(ctx context.Context, changes []store.Change) error {
	if len(changes) == 0 {
		return nil
	}
	newest := make(map[string]machine.RunStatus, len(changes))
	for _, c := range changes {
		newest[c.RunID.String()] = c.Status
	}
	_, err := p.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for run, status := range newest {
			pipe.XAdd(ctx, &redis.XAddArgs{
				Stream: p.events, MaxLen: eventsKept, Approx: true, Values: []string{stream.RunField, run, stream.StatusField, string(status)},
			})
		}
		return nil
	})
	return err
}
