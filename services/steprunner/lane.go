package steprunner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	pawlv1 "pawl.internal/gen/pawl/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/internal/stream"
)

// laneCount is the number of lanes: interactive and batch.
const laneCount = 2

// lane turns the entries of one stream into claims. It has slots of its own, so that one class never takes what the other
// needs, and reads only what it has slots for, so that no step waits here while another runner is free.
type lane struct {
	class   pawlv1.RunClass
	slots   *slots
	inbox   *inbox
	lease   *lease
	claimer *claimer
	ids     *ids.Source
	clock   clock.Clock
	log     *slog.Logger
	// start executes a granted claim and returns when the entry can be deleted; false means that it must stay.
	start func(ctx context.Context, c *claim) bool

	asking sync.WaitGroup // claims without an answer
	broken atomic.Bool    // the last read failed
}

// run reads and claims until reading ends, and returns when the claims are answered that it has made by then, or ctx ends.
func (l *lane) run(ctx context.Context, reading context.Context) error {
	defer l.asking.Wait()
	pace := backoff{clock: l.clock}
	for {
		n, err := l.slots.takeAll(reading)
		if err != nil {
			return ctx.Err()
		}
		entries, err := l.next(ctx, reading, n)
		l.slots.give(n - len(entries))
		switch {
		case reading.Err() != nil && len(entries) == 0:
			return ctx.Err()
		case err != nil:
			l.report(ctx, err)
			if pace.wait(reading) != nil {
				return ctx.Err()
			}
			continue
		}
		pace.reset()
		l.report(ctx, nil)
		l.begin(ctx, entries)
	}
}

// next waits for the right to claim and then for entries.
func (l *lane) next(ctx, reading context.Context, n int) ([]stream.Message, error) {
	if err := l.lease.await(reading); err != nil {
		return nil, err
	}
	return l.inbox.read(ctx, n)
}

// report logs when the stream becomes unreadable and when it is back.
func (l *lane) report(ctx context.Context, err error) {
	broken := err != nil
	if was := l.broken.Swap(broken); was == broken {
		return
	}
	if broken {
		l.log.WarnContext(ctx, "stream cannot be read", "class", className(l.class), "error", err)
		return
	}
	l.log.InfoContext(ctx, "stream is readable again", "class", className(l.class))
}

// ready says why the lane receives nothing; nil if it does.
func (l *lane) ready() error {
	if l.broken.Load() {
		return fmt.Errorf("the stream of %s steps cannot be read", className(l.class))
	}
	return nil
}

// begin claims the steps that the entries announce. Each entry has a slot.
func (l *lane) begin(ctx context.Context, entries []stream.Message) {
	claims := make([]*claim, 0, len(entries))
	for _, entry := range entries {
		ref, err := parseEntry(entry.Fields)
		if err != nil {
			l.log.ErrorContext(ctx, "entry dropped", "entry", entry.ID, "error", err)
			l.end(entry.ID)
			continue
		}
		claims = append(claims, &claim{entry: entry.ID, class: l.class, ref: ref, fence: l.ids.V4()})
	}
	if len(claims) > 0 {
		l.asking.Go(func() { l.claim(ctx, claims) })
	}
}

// claim asks until every claim is answered. What is granted begins at once.
func (l *lane) claim(ctx context.Context, claims []*claim) {
	pace := backoff{clock: l.clock}
	for len(claims) > 0 {
		answered, again, refused := l.claimer.ask(ctx, claims)
		for _, c := range answered {
			l.settle(ctx, c)
		}
		for _, c := range refused {
			l.end(c.entry) // the orchestrator adds the step again if it is still waiting
		}
		if len(answered) > 0 {
			pace.reset()
		}
		if claims = again; len(claims) > 0 && pace.wait(ctx) != nil {
			l.slots.give(len(claims))
			return
		}
	}
}

// settle acts on the answer to a claim.
func (l *lane) settle(ctx context.Context, c *claim) {
	if c.answer.GetStatus() != systemv1.ClaimStatus_CLAIM_STATUS_GRANTED {
		l.end(c.entry)
		return
	}
	l.start(ctx, c)
}

// end deletes an entry that is dealt with and frees its slot.
func (l *lane) end(entry string) {
	l.inbox.delete(entry)
	l.slots.give(1)
}

// parseEntry reads an entry of the stream: ids only.
func parseEntry(fields stream.Fields) (*systemv1.StepRef, error) {
	run, err := uuid.Parse(fields["run"])
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	shard, err := strconv.ParseInt(fields["shard"], 10, 32)
	if err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	generation, err := strconv.ParseInt(fields["generation"], 10, 32)
	if err != nil {
		return nil, fmt.Errorf("generation: %w", err)
	}
	if fields["step"] == "" {
		return nil, errors.New("step: is missing")
	}
	return &systemv1.StepRef{RunId: run[:], Step: fields["step"], Shard: int32(shard), Generation: int32(generation)}, nil
}
