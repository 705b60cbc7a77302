package orchestrator

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/orchestrator/store"
)

// soonTimer is a timer of a run of that number, so many milliseconds from the start.
func soonTimer(run byte, ms int) store.SoonTimer {
	at := clocktest.Start.Add(time.Duration(ms) * time.Millisecond)
	return store.SoonTimer{Timer: store.Timer{Ref: store.OfRun(uuid.UUID{run}), At: at}, Fires: at}
}

// taken lists the runs whose timers have run out.
func (a *agenda) taken(ms int) (runs []byte) {
	for _, t := range a.take(clocktest.Start.Add(time.Duration(ms) * time.Millisecond)) {
		runs = append(runs, t.RunID[0])
	}
	return runs
}

func TestAgendaGivesTimersInTheirOrderOnce(t *testing.T) {
	t.Parallel()
	a := newAgenda()
	a.replace([]store.SoonTimer{soonTimer(1, 300), soonTimer(2, 100), soonTimer(3, 200)})
	a.notice([]store.SoonTimer{soonTimer(3, 200), soonTimer(4, 50), soonTimer(1, 400)})
	require.Len(t, a.earlier, 1, "there is an earlier one to wait for")
	first, any := a.next()
	require.True(t, any)
	require.Equal(t, soonTimer(4, 50).Fires, first)
	require.Empty(t, a.taken(49))
	require.Equal(t, []byte{4, 2, 3}, a.taken(250))
	require.Equal(t, []byte{1, 1}, a.taken(1000), "a timer that was set anew is another one")
	_, any = a.next()
	require.False(t, any)
}

// A look knows more than the one before; what a group of this replica has set, a look need not have seen.
func TestAgendaKeepsWhatALookMayNotKnow(t *testing.T) {
	t.Parallel()
	a := newAgenda()
	a.replace([]store.SoonTimer{soonTimer(1, 100), soonTimer(2, 100)})
	a.notice([]store.SoonTimer{soonTimer(3, 300)})
	require.Empty(t, a.earlier, "there is nothing earlier to wait for")
	a.replace([]store.SoonTimer{soonTimer(2, 100), soonTimer(3, 300)})
	require.Equal(t, []byte{2, 3}, a.taken(1000))
}

func TestAgendaIsBounded(t *testing.T) {
	t.Parallel()
	a := newAgenda()
	for i := range agendaMost + 10 {
		a.notice([]store.SoonTimer{soonTimer(1, i)})
	}
	require.Len(t, a.take(clocktest.Start.Add(time.Hour)), agendaMost)
}

// Of so many replicas exactly one acts on a timer at its time, and all have about the same to do.
func TestReplicasShareTimers(t *testing.T) {
	t.Parallel()
	var counts [3]int
	for i := range uint32(300) {
		var run uuid.UUID
		binary.BigEndian.PutUint32(run[12:], i*2654435761)
		counts[share(run, 3)]++
		require.Zero(t, share(run, 1))
	}
	for _, n := range counts {
		require.InDelta(t, 100, n, 30)
	}
}
