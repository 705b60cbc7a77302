package permit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/llmgateway/permit"
	"pawl.internal/services/testkit"
)

func newLimited(t *testing.T, limit permit.Limit, size int) *cluster {
	t.Helper()
	c := newCluster(t, 0, size)
	c.limit = limit
	return c
}

// need acquires what is needed, within a time that is long enough for all that is due soon.
func (r *replica) need(t *testing.T, n permit.Need) (*permit.Permit, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	n.Group = group
	return r.Acquire(ctx, n, func() {})
}

// until waits until the state is as it should be.
func (r *replica) until(t *testing.T, holds func(permit.State) bool) {
	t.Helper()
	testkit.Eventually(t, soon, func() error {
		if s := r.States()[group]; !holds(s) {
			return fmt.Errorf("it is %+v", s)
		}
		return nil
	})
}

func now() time.Time { return clock.System().Now() }

func TestAPauseStopsEveryReplica(t *testing.T) {
	t.Parallel()
	c := newLimited(t, permit.Limit{Concurrency: 8}, 2)
	all := c.replicas()
	all[1].hold(t, 1)[0].Release()
	all[0].Feedback(group, permit.Feedback{Limited: true, Sent: now(), Wait: time.Second})
	all[0].Feedback(group, permit.Feedback{Limited: true, Sent: now(), Wait: time.Millisecond}) // shortens nothing
	told := now()
	all[1].until(t, func(s permit.State) bool { return !s.PausedUntil.IsZero() })
	all[1].hold(t, 1)[0].Release()
	require.GreaterOrEqual(t, now().Sub(told), 950*time.Millisecond)
}

func TestALongPauseIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	c := newLimited(t, permit.Limit{Concurrency: 1}, 2)
	all := c.replicas()
	held := all[0].hold(t, 1)[0]
	inLine := make(chan struct{})
	refused := make(chan error, 1)
	go func() {
		_, err := all[1].Acquire(t.Context(), permit.Need{Group: group}, func() { close(inLine) })
		refused <- err
	}()
	<-inLine
	all[0].Feedback(group, permit.Feedback{Limited: true, Sent: now(), Wait: time.Minute})
	var r *permit.Refusal
	require.ErrorAs(t, <-refused, &r, "also those in line of another replica are told")
	require.InDelta(t, time.Minute, r.Wait, float64(5*time.Second))
	require.False(t, r.Deadline)
	_, err := all[1].need(t, permit.Need{})
	require.ErrorAs(t, err, &r)
	held.Release()
}

func TestADeadlineThatCannotBeMetIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	c := newLimited(t, permit.Limit{Concurrency: 8, Requests: 60}, 1)
	r := c.start("only", c.client)
	_, err := r.need(t, permit.Need{}) // one a second or so; the bucket was empty
	require.NoError(t, err)
	began := now()
	_, err = r.need(t, permit.Need{Deadline: began.Add(200 * time.Millisecond)})
	var refusal *permit.Refusal
	require.ErrorAs(t, err, &refusal)
	require.True(t, refusal.Deadline)
	require.Greater(t, refusal.Wait, 200*time.Millisecond)
	require.Less(t, now().Sub(began), 200*time.Millisecond)
	_, err = r.need(t, permit.Need{Deadline: began.Add(5 * time.Second)})
	require.NoError(t, err)
	_, err = r.need(t, permit.Need{Deadline: began})
	require.ErrorAs(t, err, &refusal, "it has passed")
}

// What a call did not use goes back to the bucket, unless nobody knows.
func TestTheEstimateIsSettled(t *testing.T) {
	t.Parallel()
	c := newLimited(t, permit.Limit{Concurrency: 8, Tokens: 60_000}, 1)
	r := c.start("only", c.client)
	level := func() float64 { return r.States()[group].Levels[permit.Tokens] }
	take := func() *permit.Permit {
		r.until(t, func(s permit.State) bool { return s.Levels[permit.Tokens] > 5000 })
		p, err := r.need(t, permit.Need{Input: 4000, Output: 20_000})
		require.NoError(t, err)
		require.Less(t, level(), -15_000.0, "a large call borrows")
		return p
	}
	take().Settle(permit.Used{Input: 4000, Output: 1000, Known: true})
	r.until(t, func(s permit.State) bool { return s.Levels[permit.Tokens] > 0 && s.Here == 0 })
	take().Unsent()
	r.until(t, func(s permit.State) bool { return s.Levels[permit.Tokens] > 5000 })
	p := take()
	p.Release()
	p.Settle(permit.Used{Input: 4000, Output: 1000, Known: true}) // after the release it counts still
	p.Unsent()                                                    // and this does not any more
	r.until(t, func(s permit.State) bool { return s.Levels[permit.Tokens] > 0 })
	take().Settle(permit.Used{})
	r.until(t, func(s permit.State) bool { return s.Here == 0 && s.InFlight == 0 })
	require.Less(t, level(), -10_000.0, "what is not known is not given back")
}

func TestLimitsChangeWhileRunning(t *testing.T) {
	t.Parallel()
	c := newLimited(t, permit.Limit{Concurrency: 1}, 1)
	r := c.start("only", c.client)
	held := r.hold(t, 1)
	r.SetLimits(map[string]permit.Limit{group: {Concurrency: 3}, "another": {Concurrency: 1}})
	held = append(held, r.hold(t, 2)...)
	r.refused(t, 50*time.Millisecond)
	p, err := r.Acquire(t.Context(), permit.Need{Group: "another"}, func() {})
	require.NoError(t, err)
	inLine, refused := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := r.Acquire(t.Context(), permit.Need{Group: group}, func() { close(inLine) })
		refused <- err
	}()
	<-inLine
	r.SetLimits(map[string]permit.Limit{"another": {Concurrency: 1}})
	var refusal *permit.Refusal
	require.ErrorAs(t, <-refused, &refusal, "the group is gone")
	for _, p := range held {
		p.Release()
	}
	testkit.Eventually(t, soon, func() error {
		if _, there := r.States()[group]; there {
			return errors.New("it is still there")
		}
		return nil
	})
	_, err = r.need(t, permit.Need{})
	require.Error(t, err)
	p.Release()
	r.SetLimits(map[string]permit.Limit{group: {Concurrency: 1}})
	r.hold(t, 1)[0].Release()
}

// loop takes permits again and again, for so many callers of a tenant, until ctx ends.
func loop(ctx context.Context, r *replica, n permit.Need, callers int, hold time.Duration, had *gauge) *sync.WaitGroup {
	var all sync.WaitGroup
	n.Group = group
	for range callers {
		all.Go(func() {
			for {
				p, err := r.Acquire(ctx, n, func() {})
				if err != nil {
					return
				}
				had.enter()
				_ = clock.System().Sleep(ctx, hold)
				had.leave()
				p.Release()
			}
		})
	}
	return &all
}

// Three tenants want more than there is; that one of them has a replica and many more calls for itself does not help it.
func TestPermitsAreSharedByTenant(t *testing.T) {
	t.Parallel()
	c := newLimited(t, permit.Limit{Concurrency: 12}, 2)
	all := c.replicas()
	ctx, cancel := context.WithCancel(t.Context())
	var greedy, modest, humble gauge
	busy := []*sync.WaitGroup{
		loop(ctx, all[0], permit.Need{Tenant: "greedy"}, 40, 5*time.Millisecond, &greedy),
		loop(ctx, all[1], permit.Need{Tenant: "modest"}, 10, 5*time.Millisecond, &modest),
		loop(ctx, all[1], permit.Need{Tenant: "humble"}, 10, 5*time.Millisecond, &humble),
	}
	testkit.Eventually(t, 2*soon, func() error {
		if n := min(greedy.total.Load(), modest.total.Load(), humble.total.Load()); n < 400 {
			return fmt.Errorf("one has had %d", n)
		}
		return nil
	})
	cancel()
	for _, w := range busy {
		w.Wait()
	}
	others := float64(modest.total.Load()+humble.total.Load()) / 2
	require.Less(t, float64(greedy.total.Load()), 1.6*others, "%d %d %d", greedy.total.Load(), modest.total.Load(), humble.total.Load())
}

// Batch calls never use the reserve, and interactive ones never the floor.
func TestReserveAndFloorOfPermits(t *testing.T) {
	t.Parallel()
	c := newLimited(t, permit.Limit{Concurrency: 10, InteractiveReserve: 0.3, BatchFloor: 0.05}, 2)
	all := c.replicas()
	ctx, cancel := context.WithCancel(t.Context())
	var batch, interactive gauge
	first := loop(ctx, all[0], permit.Need{Class: permit.Batch, Tenant: "a"}, 30, time.Millisecond, &batch)
	testkit.Eventually(t, soon, func() error {
		if n := batch.most.Load(); n != 7 {
			return fmt.Errorf("%d at once", n)
		}
		return nil
	})
	second := loop(ctx, all[1], permit.Need{Tenant: "b"}, 30, time.Millisecond, &interactive)
	testkit.Eventually(t, soon, func() error {
		if n := interactive.most.Load(); n != 9 {
			return fmt.Errorf("%d at once", n)
		}
		return nil
	})
	before := batch.total.Load()
	testkit.Eventually(t, soon, func() error {
		if n := batch.total.Load() - before; n < 20 {
			return fmt.Errorf("batch calls are starved: %d", n)
		}
		return nil
	})
	cancel()
	first.Wait()
	second.Wait()
	require.LessOrEqual(t, batch.most.Load(), int64(7))
}

// On the server that `pawl dev` has when there is no other.
func TestLimitsHoldOnMiniredis(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	c := &cluster{t: t, client: client, prefix: "p", limit: permit.Limit{Concurrency: 3, Requests: 60_000}, size: 2}
	var g gauge
	var all []*sync.WaitGroup
	for _, r := range c.replicas() {
		all = append(all, calls(t, r, &g, 5, 10))
	}
	for _, w := range all {
		w.Wait()
	}
	require.Equal(t, int64(100), g.total.Load())
	require.LessOrEqual(t, g.most.Load(), int64(3))
}

// Without Redis, rates are shared out too.
func TestWithoutRedisAReplicaKeepsToItsShareOfTheRate(t *testing.T) {
	t.Parallel()
	server := testkit.PrivateRedis(t)
	keys := testkit.KeysAt(t, server.URL())
	c := &cluster{t: t, client: keys.Client, prefix: keys.Prefix, limit: permit.Limit{Concurrency: 50, Requests: 1200}, size: 2}
	r := c.start("one of two", c.client)
	r.hold(t, 1)[0].Release()
	server.Kill()
	testkit.Eventually(t, soon, func() error {
		if !r.degraded.Load() {
			return errors.New("not degraded")
		}
		return nil
	})
	began := now()
	for _, p := range r.hold(t, 20) {
		p.Release()
	}
	require.Greater(t, now().Sub(began), 1500*time.Millisecond, "9 a second: half of nine tenths of 20")
	require.NoError(t, server.Start(t.Context()))
	r.until(t, func(s permit.State) bool { return !s.Degraded })
	r.hold(t, 1)[0].Release()
}

// A provider that enforces half of the configured concurrency, asked by three replicas: the ceiling finds it, and few requests
// are in vain.
func TestTheCeilingSettlesOnRedis(t *testing.T) {
	t.Parallel()
	const enforced = 16
	c := newLimited(t, permit.Limit{Concurrency: 2 * enforced, Adaptive: true}, 3)
	var provider gauge
	var attempts, answered atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	replicas := c.replicas()
	for _, r := range replicas {
		for range 20 {
			all.Go(func() {
				for ctx.Err() == nil {
					p, err := r.acquire(ctx, permit.Batch)
					if err != nil {
						return
					}
					attempts.Add(1)
					f := permit.Feedback{Sent: now()}
					provider.enter()
					if f.Limited = provider.now.Load() > enforced; !f.Limited {
						_ = clock.System().Sleep(ctx, 20*time.Millisecond)
						answered.Add(1)
					} else {
						_ = clock.System().Sleep(ctx, 2*time.Millisecond)
					}
					provider.leave()
					r.Feedback(group, f)
					p.Release()
				}
			})
		}
	}
	testkit.Eventually(t, 60*time.Second, func() error {
		if n := answered.Load(); n < 3000 {
			return fmt.Errorf("%d answers", n)
		}
		return nil
	})
	state := replicas[0].States()[group]
	cancel()
	all.Wait()
	require.InDelta(t, enforced, state.Ceiling, 0.15*enforced+1)
	require.Less(t, float64(attempts.Load())/float64(answered.Load()), 1.3)
	t.Logf("ceiling %d, %d attempts, %d answers", state.Ceiling, attempts.Load(), answered.Load())
}

// BenchmarkAcquire measures the hot path: a permit that was given back is used again.
func BenchmarkAcquire(b *testing.B) {
	keys := testkit.Redis(b)
	for name, limit := range map[string]permit.Limit{"concurrency": {Concurrency: 64}, "rates": {Concurrency: 64, Requests: 1 << 40}} {
		b.Run(name, func(b *testing.B) {
			pool := permit.New(deps(keys, func() int { return 1 }), permit.Config{TTL: time.Second, Limits: map[string]permit.Limit{group: limit}})
			ctx, cancel := context.WithCancel(b.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = pool.Run(ctx) })
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					p, err := pool.Acquire(ctx, permit.Need{Group: group, Tenant: "a"}, func() {})
					if err != nil {
						b.Error(err)
						return
					}
					p.Settle(permit.Used{Known: true})
				}
			})
			cancel()
			running.Wait()
		})
	}
}

func deps(keys *testkit.Keys, replicas func() int) permit.Deps {
	return permit.Deps{
		Redis: keys.Client, Prefix: keys.Prefix, Replica: "only", Clock: clock.System(), Log: discard(), Replicas: replicas,
		Degraded: func(string, bool) {},
	}
}
