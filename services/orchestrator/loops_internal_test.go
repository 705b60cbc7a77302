package orchestrator

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/orchestrator/store"
)

// postgres stands for the server's clock, and for whether it takes writes.
type postgres struct {
	now time.Time
	err error
}

func (p *postgres) show(context.Context, uuid.UUID) (time.Time, error) { return p.now, p.err }

func newJudge() (*judge, *postgres) {
	p := &postgres{now: clocktest.Start}
	return &judge{clock: clocktest.New(), lease: 10 * time.Second, show: p.show}, p
}

// serve lets n seconds pass, with a write in each.
func (j *judge) serve(ctx context.Context, p *postgres, n int) {
	for range n {
		p.now = p.now.Add(time.Second)
		j.beat(ctx)
	}
}

// Nobody is expired by an outage of the judge: after it, runners have a whole lease to be heard of again.
func TestJudgeServesAWholeLeaseFirst(t *testing.T) {
	t.Parallel()
	j, p := newJudge()
	require.ErrorIs(t, j.ready(), errNoBeat)
	require.False(t, j.mayExpire(p.now), "it has not begun to serve")
	j.serve(t.Context(), p, 10)
	require.False(t, j.mayExpire(p.now))
	j.serve(t.Context(), p, 1)
	require.True(t, j.mayExpire(p.now))
	require.NoError(t, j.ready())
}

func TestInterruptionsOfTheJudge(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	for name, interrupt := range map[string]func(*judge, *postgres){
		"a write fails": func(j *judge, p *postgres) {
			p.err = away
			j.serve(t.Context(), p, 1)
			require.ErrorIs(t, j.ready(), away)
			p.err = nil
		},
		"the process is paused": func(_ *judge, p *postgres) { p.now = p.now.Add(time.Minute) },
		"a clock jumps forward": func(_ *judge, p *postgres) { p.now = p.now.Add(time.Hour) },
		"a clock jumps back":    func(_ *judge, p *postgres) { p.now = p.now.Add(-time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			j, p := newJudge()
			j.serve(t.Context(), p, 20)
			require.True(t, j.mayExpire(p.now))
			interrupt(j, p)
			require.False(t, j.mayExpire(p.now), "before the next write too")
			j.serve(t.Context(), p, 10)
			require.False(t, j.mayExpire(p.now))
			j.serve(t.Context(), p, 1)
			require.True(t, j.mayExpire(p.now))
		})
	}
}

// With a short lease, a short pause costs runners theirs: three quarters of it are left when one renews it.
func TestJudgeNoticesEveryPauseThatCostsALease(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{leastLease, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, time.Minute} {
		j, p := newJudge()
		j.lease = lease
		for served := time.Duration(0); served < 2*lease; served += j.interval() {
			p.now = p.now.Add(j.interval())
			j.beat(t.Context())
		}
		require.True(t, j.mayExpire(p.now), lease)
		p.now = p.now.Add(lease * 3 / 4)
		require.False(t, j.mayExpire(p.now), "%v: before the next write too", lease)
		j.beat(t.Context())
		require.False(t, j.mayExpire(p.now), lease)
	}
}

func TestLateWriteIsNoInterruption(t *testing.T) {
	t.Parallel()
	j, p := newJudge()
	j.serve(t.Context(), p, 11)
	p.now = p.now.Add(2 * time.Second)
	require.True(t, j.mayExpire(p.now))
	j.beat(t.Context())
	require.True(t, j.mayExpire(p.now))
}

// A bound never passes what a group may still commit, never goes back, and is dropped once in a while.
func TestBound(t *testing.T) {
	t.Parallel()
	var b bound
	process, database := clocktest.Start, clocktest.Start.Add(time.Hour)
	require.Zero(t, b.start(process))
	b.pass(database)
	require.Equal(t, database.Add(-commitTime), b.start(process.Add(time.Minute)))
	b.pass(database.Add(-time.Minute))
	require.Equal(t, database.Add(-commitTime), b.start(process.Add(unboundedEvery-1)))
	require.Zero(t, b.start(process.Add(unboundedEvery)))
	b.pass(database)
	require.Equal(t, database.Add(-commitTime), b.start(process.Add(unboundedEvery+time.Minute)))
}

func TestWindowSize(t *testing.T) {
	t.Parallel()
	require.Equal(t, 16, windowSize(0, 0))
	require.Equal(t, 16, windowSize(8, 160))
	require.Equal(t, 18, windowSize(9, 160))
	require.Equal(t, 250, windowSize(9, 2500))
}

// A look that takes long, since old versions of rows cannot be removed, is made less often, and brings more.
func TestLooksThatTakeLongAreMadeLessOften(t *testing.T) {
	t.Parallel()
	require.Equal(t, 20*time.Millisecond, lookPause(time.Millisecond))
	require.Equal(t, time.Second, lookPause(200*time.Millisecond))
	require.Equal(t, 250, readAhead(250, 20*time.Millisecond))
	require.Equal(t, 2750, readAhead(250, time.Second))
}

func TestRateIsThatSinceTheLastTime(t *testing.T) {
	t.Parallel()
	var r rate
	at := clocktest.Start
	require.Zero(t, r.perSecond(at, 1000))
	require.InDelta(t, 50, r.perSecond(at.Add(2*time.Second), 1100), 0.01)
	require.InDelta(t, 50, r.perSecond(at.Add(2*time.Second), 1200), 0.01, "no time has passed")
	require.InDelta(t, 100, r.perSecond(at.Add(3*time.Second), 1200), 0.01)
	require.Zero(t, r.perSecond(at.Add(4*time.Second), 1200))
}

// What is refused again and again is told ever less often; what is not owed any more is forgotten.
func TestRefusalsArePutOffEverLonger(t *testing.T) {
	t.Parallel()
	var r refusals
	name, now := store.Owed{At: 1}, clocktest.Start
	require.True(t, r.add(name, now))
	require.Equal(t, []store.Owed{name}, r.putOff(now))
	require.Equal(t, putOffFirst, r.pause(now, time.Minute))
	require.Empty(t, r.putOff(now.Add(putOffFirst)))
	require.False(t, r.add(name, now))
	require.Equal(t, 2*putOffFirst, r.pause(now, time.Minute))
	for range 20 {
		require.False(t, r.add(name, now))
	}
	require.Equal(t, putOffMost, r.pause(now, time.Hour))
	require.Empty(t, r.putOff(now.Add(putOffMost+refusalKept+time.Second)))
	require.True(t, r.add(name, now))
}
