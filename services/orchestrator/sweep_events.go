package orchestrator

import (
	"time"

	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// events are what the ends of timers mean in the states of their steps and runs.
func events(timers []store.Timer) []*store.Event {
	made := make([]*store.Event, len(timers))
	for i, t := range timers {
		made[i] = &store.Event{Ref: t.Ref, Make: func(r machine.Ref, _ time.Time) machine.Event {
			switch t.Status {
			case "":
				return machine.DeadlinePassed{}
			case machine.StepBackoff:
				return machine.RetryDue{Ref: r}
			case machine.StepRunning:
				return machine.HardTimeout{Ref: r, Fence: t.Fence}
			default:
				return machine.Woken{Ref: r, Timed: true}
			}
		}}
	}
	return made
}

// expirations take steps from runners that are gone, or do not know of them.
func expirations(lost []store.LostStep) []*store.Event {
	events := make([]*store.Event, len(lost))
	for i, l := range lost {
		events[i] = &store.Event{Ref: l.Ref, Make: func(r machine.Ref, _ time.Time) machine.Event {
			return machine.LeaseExpired{Ref: r, Fence: l.Fence}
		}}
	}
	return events
}

// overdues have the ids of steps added again to their streams, unless they were QUEUED anew since.
func overdues(refs []store.Ref, since time.Time) []*store.Event {
	events := make([]*store.Event, len(refs))
	for i, ref := range refs {
		events[i] = &store.Event{Ref: ref, Make: func(r machine.Ref, _ time.Time) machine.Event {
			return machine.Overdue{Ref: r, QueuedBefore: since}
		}}
	}
	return events
}
