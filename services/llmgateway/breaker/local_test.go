package breaker_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/llmgateway/breaker"
)

const target = "main/small"

// alone is one replica without Redis, on a clock of its own.
type alone struct {
	*breaker.Set
	t     *testing.T
	clock *clocktest.Fake
	open  map[string]bool
}

func newAlone(t *testing.T, cfg breaker.Config) *alone {
	t.Helper()
	away := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	require.NoError(t, away.Close())
	a := &alone{t: t, clock: clocktest.New(), open: map[string]bool{}}
	a.Set = breaker.New(breaker.Deps{
		Redis: away, Prefix: "test", Replica: "a", Clock: a.clock, Log: slog.New(slog.DiscardHandler),
		Changed: func(name string, open bool) { a.open[name] = open },
		Gone:    func(name string) { delete(a.open, name) },
	})
	a.Retain(map[string]breaker.Config{target: cfg})
	return a
}

// send lets requests pass, one letter each: s succeeds, f fails, n says nothing, a is refused by a target that lives.
func (a *alone) send(results string) {
	a.t.Helper()
	for _, letter := range results {
		pass, wait := a.Enter(a.t.Context(), target)
		require.NotNil(a.t, pass, "it rests for %s", wait)
		pass.Done(resultOf(letter))
	}
}

func resultOf(letter rune) breaker.Result {
	return map[rune]breaker.Result{
		's': breaker.Success, 'f': breaker.Failure, 'n': breaker.Neither, 'a': breaker.Alive,
	}[letter]
}

// rests fails the test unless the target rests for so long, of which it returns nothing.
func (a *alone) rests(wait time.Duration) {
	a.t.Helper()
	require.Equal(a.t, wait, a.Wait(target))
	pass, left := a.Enter(a.t.Context(), target)
	require.Nil(a.t, pass)
	require.Equal(a.t, wait, left)
	require.True(a.t, a.open[target])
}

func TestWhenABreakerOpens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		results string
		opens   bool
	}{
		"too few failures":                   {"ffff", false},
		"enough failures":                    {"fffff", true},
		"half of them":                       {"sssss" + "fffff", true},
		"fewer than half":                    {"ssssss" + "fffff", false},
		"much traffic, and then none works":  {strings.Repeat("s", 500) + strings.Repeat("f", 50), true},
		"much traffic, and a third fails":    {strings.Repeat("ssf", 100), false},
		"refusals are no failures":           {strings.Repeat("a", 50), false},
		"refusals are no successes":          {strings.Repeat("a", 50) + "fffff", true},
		"requests that say nothing":          {strings.Repeat("n", 50) + "ffff", false},
		"failures that a success breaks off": {"ffffs" + "f", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAlone(t, breaker.Config{Failures: 5, Window: time.Minute, Pause: 5 * time.Second})
			a.send(c.results)
			require.Equal(t, c.opens, a.Wait(target) > 0)
			require.Equal(t, c.opens, a.open[target])
		})
	}
}

func TestFailuresOfLongAgoAreForgotten(t *testing.T) {
	t.Parallel()
	a := newAlone(t, breaker.Config{Failures: 5, Window: time.Minute, Pause: 5 * time.Second})
	a.send("ffff")
	a.clock.Advance(time.Minute)
	a.send("ffff")
	require.Zero(t, a.Wait(target))
	a.send("f")
	a.rests(5 * time.Second)
}

func TestPausesDoubleUpToABoundUntilAProbeIsAnswered(t *testing.T) {
	t.Parallel()
	a := newAlone(t, breaker.Config{Failures: 1, Window: time.Minute, Pause: 5 * time.Second})
	a.send("f")
	for _, seconds := range []int{5, 10, 20, 40, 80, 80} {
		pause := time.Duration(seconds) * time.Second
		a.rests(pause)
		a.clock.Advance(pause - 1)
		a.rests(1)
		a.clock.Advance(1)
		require.Zero(t, a.Wait(target))
		probe, _ := a.Enter(t.Context(), target)
		require.True(t, probe.Probe())
		second, wait := a.Enter(t.Context(), target)
		require.Nil(t, second, "there is one probe")
		require.Equal(t, 5*time.Second, wait)
		probe.Done(breaker.Failure)
		probe.Done(breaker.Success) // too late
	}
	a.clock.Advance(80 * time.Second)
	a.send("n") // it was never sent: the next one is the probe
	a.send("s")
	require.False(t, a.open[target])
	a.send("s")
	a.send("f")
	a.clock.Advance(5 * time.Second)
	a.send("a" + "s") // the target refused what it was asked, so it is there; and pauses begin with the first one again
	require.False(t, a.open[target])
}

func TestWhatWasSentBeforeAnOpeningSaysNothingAfterIt(t *testing.T) {
	t.Parallel()
	a := newAlone(t, breaker.Config{Failures: 2, Window: time.Minute, Pause: time.Second})
	var before []*breaker.Pass
	for range 4 {
		pass, _ := a.Enter(t.Context(), target)
		before = append(before, pass)
	}
	before[0].Done(breaker.Failure)
	before[1].Done(breaker.Failure)
	a.rests(time.Second)
	a.clock.Advance(time.Second)
	a.send("s")
	before[2].Done(breaker.Failure)
	before[3].Done(breaker.Failure)
	require.False(t, a.open[target])
}

func TestTargetsComeAndGo(t *testing.T) {
	t.Parallel()
	cfg := breaker.Config{Failures: 1, Window: time.Minute, Pause: time.Second}
	a := newAlone(t, cfg)
	late, _ := a.Enter(t.Context(), target)
	a.send("f")
	a.Retain(map[string]breaker.Config{target: cfg, "other": cfg})
	require.Equal(t, map[string]bool{target: true, "other": false}, a.open, "who stays keeps its breaker")
	a.Retain(map[string]breaker.Config{"other": cfg})
	late.Done(breaker.Failure)
	require.Equal(t, map[string]bool{"other": false}, a.open)
	a.send("fff") // without a breaker everything passes
	a.Retain(map[string]breaker.Config{target: cfg, "other": cfg})
	require.Zero(t, a.Wait(target))
}
