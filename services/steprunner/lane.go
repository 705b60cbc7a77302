package steprunner

import (
	"context"
	"log/slog"
	"sync/atomic"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/internal/stream"
	"pawl.internal/services/steprunner/repeat"
)

// laneCount is the number of lanes: interactive and batch.
const laneCount = 2

// lane turns the entries of one stream into claims. It has slots of its own, so that one class never takes what the other
// needs, and reads only what it has slots for, so that no step waits here while another runner is free.
type lane struct {
	class    pawlv1.RunClass
	slots    *slots
	inbox    *inbox
	lease    *lease
	claimer  *claimer
	attempts *attempts
	ids      *ids.Source
	clock    clock.Clock
	log      *slog.Logger

	broken atomic.Bool // the last read failed
}

// run reads and claims until reading ends. What is being read then is still claimed, in order to be handed back: nothing
// must wait for this runner's lease to end.
func (l *lane) run(ctx, reading context.Context) {
	pace := repeat.NewPace(l.clock)
	for {
		n, err := l.slots.takeAll(reading)
		if err != nil {
			return
		}
		entries, err := l.next(ctx, reading, n)
		l.slots.give(n - len(entries))
		l.report(reading, err)
		if err != nil {
			if pace.Wait(reading) != nil {
				return
			}
			continue
		}
		pace.Reset()
		l.begin(ctx, reading, entries)
	}
}

// next waits for the right to claim and then for entries.
func (l *lane) next(ctx, reading context.Context, n int) ([]stream.Message, error) {
	if err := l.lease.await(reading); err != nil {
		return nil, err
	}
	entries, err := l.inbox.read(ctx, n)
	if len(entries) > 0 {
		failpoint.Hit("runner.entry.read")
	}
	return entries, err
}

// report logs when the stream becomes unreadable and when it is back.
func (l *lane) report(reading context.Context, err error) {
	broken := err != nil
	switch {
	case reading.Err() != nil, l.broken.Swap(broken) == broken:
	case broken:
		l.log.WarnContext(reading, "stream cannot be read", "class", className(l.class), "error", err)
	default:
		l.log.InfoContext(reading, "stream is readable again", "class", className(l.class))
	}
}

// ready says why the lane receives nothing; nil if it does.
func (l *lane) ready() error {
	if l.broken.Load() {
		return fault.Unavailable(nil, "the stream of %s steps cannot be read", className(l.class))
	}
	return nil
}

// begin claims the steps that the entries announce. Each entry has a slot.
func (l *lane) begin(ctx, reading context.Context, entries []stream.Message) {
	claims := make([]*claim, 0, len(entries))
	for _, entry := range entries {
		if entry.Fields == nil { // deleted by another: there is nothing left but to acknowledge it
			l.end(entry.ID)
			continue
		}
		named, err := stream.ParseStep(entry.Fields)
		if err != nil {
			l.log.ErrorContext(ctx, "entry dropped", "entry", entry.ID, "error", err)
			l.end(entry.ID)
			continue
		}
		ref := &systemv1.StepRef{RunId: named.Run[:], Step: named.Step, Shard: named.Shard, Generation: named.Generation}
		claims = append(claims, &claim{entry: entry.ID, class: l.class, ref: ref, fence: l.ids.V4()})
	}
	if len(claims) > 0 {
		l.attempts.work.Go(func() { l.claim(ctx, reading, claims) })
	}
}

// claim asks until every claim is answered, or ctx ends: then the entries are left to the janitor.
func (l *lane) claim(ctx, reading context.Context, claims []*claim) {
	pace := repeat.NewPace(l.clock)
	for len(claims) > 0 {
		if l.lease.await(ctx) != nil {
			return
		}
		granted, over, again := l.claimer.ask(ctx, claims)
		if len(granted) > 0 {
			failpoint.Hit("runner.claim.granted")
		}
		for _, c := range over {
			l.end(c.entry)
		}
		l.take(ctx, reading, granted)
		if len(again) < len(claims) {
			pace.Reset()
		}
		if claims = again; len(claims) > 0 && pace.Wait(ctx) != nil {
			return
		}
	}
}

// take begins what is granted, or hands it back when the runner shuts down.
func (l *lane) take(ctx, reading context.Context, granted []*claim) {
	if reading.Err() != nil {
		l.attempts.handBack(ctx, l, granted)
		return
	}
	for _, c := range granted {
		l.attempts.begin(ctx, l, c)
	}
}

// end deletes an entry that is dealt with and frees its slot.
func (l *lane) end(entry string) {
	l.inbox.delete(entry)
	l.slots.give(1)
}
