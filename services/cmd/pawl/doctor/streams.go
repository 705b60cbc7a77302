package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"pawl.internal/services/internal/checkup"
	"pawl.internal/services/internal/stream"
	core "pawl.internal/services/orchestrator/inspect"
	"pawl.internal/services/orchestrator/machine"
)

const (
	// entriesMost bounds the entries of a stream that are looked at.
	entriesMost = 100_000
	// restoreTime is how long a QUEUED step may be without an entry beside the time of waiting in line: five seconds of
	// patience, and a look of the janitor's every two.
	restoreTime = 8 * time.Second
	// dropTime is how long an entry may be there that nobody wants: a runner learns of it with its next heartbeat at the latest.
	dropTime = 15 * time.Second
	// buryTime is what the janitor takes beyond a lease.
	buryTime = 5 * time.Second
	// lengthSlack is how many entries a stream may have beyond two for each step that is dispatched.
	lengthSlack = 64
)

// streamChecks hold the streams against the table.
func streamChecks() []*checkup.Check {
	return []*checkup.Check{
		{
			Name:     "lost-entry",
			Promise:  "I03: a QUEUED step whose entry Redis has lost is added again within seconds",
			Means:    "no step-runner will hear of the step",
			Remedy:   "see whether an orchestrator runs and reaches Redis; --repair adds the entries",
			Severity: checkup.Broken, Settles: restoreTime, Find: eachClass(lostEntries),
			Repair: "adds the steps' ids to their streams; a second entry does no harm, since the claim decides",
			Mend:   addEntries,
		},
		{
			Name:     "unwanted-entry",
			Promise:  "I12: an entry that no step wants leaves its stream by itself",
			Means:    "a step-runner takes it for nothing, or it lies there for ever",
			Remedy:   "see whether a step-runner and an orchestrator run; --repair removes the entries",
			Severity: checkup.Broken, Settles: dropTime, Find: eachClass(unwantedEntries),
			Repair: "removes the entries; a step that wants one after all is added again by the orchestrator",
			Mend:   removeEntries,
		},
		{
			Name:     "dead-consumer",
			Promise:  "I04: what a step-runner has left behind in a stream is taken up when its lease is over",
			Means:    "the steps of its entries wait longer than they must",
			Remedy:   "see whether an orchestrator runs, and can write to PostgreSQL without a break; --repair removes the consumers",
			Severity: checkup.Broken, Settles: core.UsualLease + buryTime, Find: eachClass(deadConsumers),
			Repair: "acknowledges their entries and removes them; the orchestrator adds again what is still wanted",
			Mend:   removeConsumers,
		},
		{
			Name:     "stream-length",
			Promise:  "a stream holds little more than the steps that are dispatched",
			Means:    "entries pile up that stand for nothing, and Redis runs full",
			Remedy:   "see what unwanted-entry says; a stream may be deleted at any time: what is wanted is added again",
			Severity: checkup.Broken, Settles: dropTime, Find: eachClass(streamLength),
		},
	}
}

// lane is what is known of the steps of a class and of their stream.
type lane struct {
	class string
	*stream.Stream
	// steps are those that want an entry or may hold one.
	steps map[stream.Step]dispatched
	// running counts those that are RUNNING; slots are those of living runners, whose names living has.
	running, slots int
	living         map[string]bool
	lease          time.Duration
}

// dispatched is a step that is QUEUED or RUNNING.
type dispatched struct {
	queued  bool
	claimNo int
}

// eachClass looks at the lanes one after the other.
func eachClass(
	look func(ctx context.Context, l *lane) ([]checkup.Finding, error),
) func(context.Context, *checkup.Target) ([]checkup.Finding, error) {
	return func(ctx context.Context, t *checkup.Target) ([]checkup.Finding, error) {
		var all []checkup.Finding
		for _, class := range machine.AllClasses() {
			l, err := readLane(ctx, t, string(class))
			if err != nil {
				return nil, err
			}
			found, err := look(ctx, l)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
		return all[:min(len(all), checkup.Most)], nil
	}
}

const dispatchedSteps = `
SELECT run_id, step, shard, generation, status = 'queued', claim_no FROM core.step_live
WHERE status IN ('queued', 'running') AND class = $1`

const livingRunners = `
SELECT instance::text, CASE $1 WHEN 'batch' THEN batch_slots ELSE interactive_slots END, lease_until - heartbeat_at
FROM core.runner WHERE lease_until > now()`

func readLane(ctx context.Context, t *checkup.Target, class string) (*lane, error) {
	l := &lane{
		class: class, Stream: stream.Steps(t.Redis, t.Prefix, class),
		steps: map[stream.Step]dispatched{}, living: map[string]bool{},
	}
	err := t.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var s stream.Step
		var d dispatched
		err := forEach(ctx, tx, dispatchedSteps, class, []any{&s.Run, &s.Step, &s.Shard, &s.Generation, &d.queued, &d.claimNo}, func() {
			l.steps[s] = d
			if !d.queued {
				l.running++
			}
		})
		if err != nil {
			return err
		}
		var name string
		var slots int
		var lease time.Duration
		return forEach(ctx, tx, livingRunners, class, []any{&name, &slots, &lease}, func() {
			l.living[name], l.lease = true, max(l.lease, lease)
			l.slots += slots
		})
	})
	if l.lease == 0 {
		l.lease = core.UsualLease
	}
	return l, err
}

// forEach reads the rows of a query into the same variables, one after the other.
func forEach(ctx context.Context, tx pgx.Tx, query, class string, into []any, do func()) error {
	rows, err := tx.Query(ctx, query, class)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, into, func() error { do(); return nil })
	return err
}

// lostEntries are QUEUED steps without an entry. Waiting in line is not loss: the longer the line, the later it is noticed.
func lostEntries(ctx context.Context, l *lane) ([]checkup.Finding, error) {
	line, err := l.AgeOfOldestUndelivered(ctx)
	if err != nil {
		return nil, err
	}
	entries, _, err := l.Look(ctx, entriesMost)
	if err != nil || len(entries) == entriesMost {
		return nil, err
	}
	there := make(map[stream.Step]bool, len(entries))
	for i := range entries {
		if s, err := stream.ParseStep(entries[i].Fields); err == nil {
			there[s] = true
		}
	}
	var found []checkup.Finding
	for s, d := range l.steps {
		if d.queued && !there[s] {
			found = append(found, checkup.Finding{
				Key: fmt.Sprintf("%s/%s/%d/%d/%d", s.Run, s.Step, s.Shard, s.Generation, d.claimNo), Run: s.Run, Settles: restoreTime + line,
				Detail: fmt.Sprintf("step %s[%d] is QUEUED, and not in the stream of class %s", s.Step, s.Shard, l.class),
				Place:  place{class: l.class, step: s},
			})
		}
	}
	return found, nil
}

// unwantedEntries are those whose step is neither QUEUED nor RUNNING, and those that name no step. One that waits in line is
// dropped when its turn comes: it is suspicious only while there are free slots and the line does not move.
func unwantedEntries(ctx context.Context, l *lane) ([]checkup.Finding, error) {
	entries, last, err := l.Look(ctx, entriesMost)
	if err != nil {
		return nil, err
	}
	var found []checkup.Finding
	for _, e := range entries {
		s, err := stream.ParseStep(e.Fields)
		if _, wanted := l.steps[s]; err == nil && wanted {
			continue
		}
		if !e.Delivered && err == nil && l.running >= l.slots {
			continue
		}
		f := checkup.Finding{
			Key: l.class + "/" + e.ID, Run: s.Run, Place: place{class: l.class, entry: e.ID},
			Detail: fmt.Sprintf("entry %s of class %s is for step %s[%d] in generation %d, which does not want it", e.ID, l.class, s.Step, s.Shard, s.Generation),
		}
		if err != nil {
			f.Run, f.Detail = uuid.Nil, fmt.Sprintf("entry %s of class %s names no step (%v)", e.ID, l.class, err)
		}
		if !e.Delivered {
			f.Key += "/" + last
		}
		found = append(found, f)
	}
	return found, nil
}

// deadConsumers are those whose runners have no lease.
func deadConsumers(ctx context.Context, l *lane) ([]checkup.Finding, error) {
	consumers, err := l.Consumers(ctx)
	if err != nil {
		return nil, err
	}
	var found []checkup.Finding
	for _, c := range consumers {
		if !l.living[c.Name] && c.Idle >= l.lease {
			found = append(found, checkup.Finding{
				Key: l.class + "/" + c.Name, Settles: l.lease + buryTime, Place: place{class: l.class, consumer: c.Name},
				Detail: fmt.Sprintf("consumer %s of class %s is silent for %v, has %d entries, and its runner no lease",
					c.Name, l.class, c.Idle.Round(time.Second), c.Pending),
			})
		}
	}
	return found, nil
}

func streamLength(ctx context.Context, l *lane) ([]checkup.Finding, error) {
	n, err := l.Len(ctx)
	if err != nil || n <= int64(lengthSlack+2*len(l.steps)) {
		return nil, err
	}
	return []checkup.Finding{{
		Key: l.class, Detail: fmt.Sprintf("the stream of class %s has %d entries for %d dispatched steps", l.class, n, len(l.steps)),
	}}, nil
}

// place says what a finding in a stream is about, for its repair.
type place struct {
	class, entry, consumer string
	step                   stream.Step
}

// addEntries adds the ids of steps to their streams.
func addEntries(ctx context.Context, t *checkup.Target, found []checkup.Finding) (int, error) {
	return perPlace(found, func(p place) error {
		return stream.Steps(t.Redis, t.Prefix, p.class).Publish(ctx, []stream.Fields{p.step.Fields()})
	})
}

// removeEntries removes entries by their ids: an entry that was added for the same step since is another one.
func removeEntries(ctx context.Context, t *checkup.Target, found []checkup.Finding) (int, error) {
	return perPlace(found, func(p place) error { return stream.Steps(t.Redis, t.Prefix, p.class).Ack(ctx, p.entry) })
}

func removeConsumers(ctx context.Context, t *checkup.Target, found []checkup.Finding) (int, error) {
	return perPlace(found, func(p place) error {
		s := stream.Steps(t.Redis, t.Prefix, p.class)
		for {
			entries, err := s.Pending(ctx, p.consumer, checkup.Most)
			if err != nil {
				return err
			}
			if len(entries) == 0 {
				return s.DeleteConsumer(ctx, p.consumer)
			}
			ids := make([]string, len(entries))
			for i := range entries {
				ids[i] = entries[i].ID
			}
			if err := s.Ack(ctx, ids...); err != nil {
				return err
			}
		}
	})
}

// perPlace repairs until the first error.
func perPlace(found []checkup.Finding, mend func(place) error) (done int, err error) {
	for _, f := range found {
		p, ok := f.Place.(place)
		if !ok {
			continue
		}
		if err := mend(p); err != nil {
			return done, err
		}
		done++
	}
	return done, nil
}
