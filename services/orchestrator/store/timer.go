package store

import (
	"time"

	"pawl.internal/services/orchestrator/machine"
)

// noteTimers tells of the timers of a run that the group sets and that run out soon: nobody else may find them in time.
func (g *group) noteTimers(r *run, changes *machine.Changes) {
	for _, rows := range [][]machine.Live{changes.Inserted, changes.Updated} {
		for i := range rows {
			if l := &rows[i]; g.soon(l.DueAt) {
				g.noteTimer(Timer{
					Ref:    Ref{RunID: r.id, Step: r.name(l.Step), Shard: l.Shard, Generation: l.Generation},
					Status: l.Status, Fence: l.Fence, At: l.DueAt,
				})
			}
		}
	}
	if deadline := r.head.DeadlineDue(); g.soon(deadline) && (r.created != nil || !deadline.Equal(r.stored.deadline)) {
		g.noteTimer(Timer{Ref: OfRun(r.id), At: deadline})
	}
}

// soon reports whether a timer is set and runs out within TimerHorizon.
func (g *group) soon(at time.Time) bool { return !at.IsZero() && at.Sub(g.now) < TimerHorizon }

func (g *group) noteTimer(t Timer) {
	g.notices.Timers = append(g.notices.Timers, SoonTimer{Timer: t, Fires: g.read.Add(t.At.Sub(g.now))})
}
