package permit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/llmgateway/permit"
	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	group = "account-1"
	ttl   = 400 * time.Millisecond
	soon  = 10 * time.Second
)

// replica is a Pool that runs, as one process would have it.
type replica struct {
	*permit.Pool
	degraded atomic.Bool
	stop     func()
}

// cluster makes replicas that share a limit.
type cluster struct {
	t      *testing.T
	client redis.UniversalClient
	prefix string
	limit  permit.Limit
	size   int
}

func newCluster(t *testing.T, limit, size int) *cluster {
	t.Helper()
	keys := testkit.Redis(t)
	return &cluster{t: t, client: keys.Client, prefix: keys.Prefix, limit: permit.Limit{Concurrency: limit}, size: size}
}

func (c *cluster) key() string { return c.prefix + ":permits:{" + group + "}" }

// start begins a replica, which ends with the test or with its stop.
func (c *cluster) start(name string, client redis.UniversalClient) *replica {
	c.t.Helper()
	r := &replica{}
	r.Pool = permit.New(permit.Deps{
		Redis: client, Prefix: c.prefix, Replica: name, Clock: clock.System(), Log: discard(),
		Replicas: func() int { return c.size },
		Degraded: func(_ string, degraded bool) { r.degraded.Store(degraded) },
	}, permit.Config{TTL: ttl, Limits: map[string]permit.Limit{group: c.limit}})
	ctx, cancel := context.WithCancel(c.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	r.stop = func() { cancel(); running.Wait() }
	c.t.Cleanup(r.stop)
	return r
}

// replicas starts all of them.
func (c *cluster) replicas() []*replica {
	list := make([]*replica, c.size)
	for i := range list {
		list[i] = c.start(fmt.Sprint("replica-", i), c.client)
	}
	return list
}

func (r *replica) acquire(ctx context.Context, class permit.Class) (*permit.Permit, error) {
	return r.Acquire(ctx, permit.Need{Group: group, Class: class}, func() {})
}

// hold takes n permits.
func (r *replica) hold(t *testing.T, n int) []*permit.Permit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	held := make([]*permit.Permit, n)
	for i := range held {
		var err error
		held[i], err = r.acquire(ctx, permit.Interactive)
		require.NoError(t, err)
	}
	return held
}

// refused fails the test unless no permit is to be had for a while.
func (r *replica) refused(t *testing.T, while time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), while)
	defer cancel()
	_, err := r.acquire(ctx, permit.Interactive)
	require.Error(t, err)
}

// gauge counts what is in flight, and the most that ever was.
type gauge struct{ now, most, total atomic.Int64 }

func (g *gauge) enter() {
	n := g.now.Add(1)
	for {
		most := g.most.Load()
		if n <= most || g.most.CompareAndSwap(most, n) {
			break
		}
	}
	g.total.Add(1)
}

func (g *gauge) leave() { g.now.Add(-1) }

// calls makes n calls of one replica through a few goroutines each.
func calls(t *testing.T, r *replica, g *gauge, workers, n int) *sync.WaitGroup {
	t.Helper()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range n {
				p, err := r.acquire(t.Context(), permit.Interactive)
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				g.enter()
				_ = clock.System().Sleep(t.Context(), time.Millisecond)
				g.leave()
				p.Release()
			}
		})
	}
	return &all
}

func TestTheLimitHoldsOverAllReplicas(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 5, 3)
	var g gauge
	var all []*sync.WaitGroup
	for _, r := range c.replicas() {
		all = append(all, calls(t, r, &g, 10, 20))
	}
	for _, w := range all {
		w.Wait()
	}
	require.Equal(t, int64(3*10*20), g.total.Load())
	require.Equal(t, int64(5), g.most.Load(), "the limit is used whole and never exceeded")
}

func TestAFreePermitNeedsNoWait(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, 1)
	r := c.start("only", c.client)
	first := r.hold(t, 1)[0]
	first.Release()
	waited := false
	p, err := r.Acquire(t.Context(), permit.Need{Group: group, Class: permit.Batch}, func() { waited = true })
	require.NoError(t, err)
	defer p.Release()
	require.False(t, waited, "the permit that was just given back is used again")
}

func TestReleasingTwiceGivesBackOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 1)
	r := c.start("only", c.client)
	p := r.hold(t, 1)[0]
	p.Release()
	p.Release()
	second := r.hold(t, 1)[0]
	r.refused(t, 50*time.Millisecond)
	second.Release()
}

func TestInteractiveCallsGoFirst(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 1)
	r := c.start("only", c.client)
	p := r.hold(t, 1)[0]
	order := make(chan permit.Class, 4)
	var all sync.WaitGroup
	for _, class := range []permit.Class{permit.Batch, permit.Batch, permit.Interactive, permit.Interactive} {
		inLine := make(chan struct{})
		all.Go(func() {
			p, err := r.Acquire(t.Context(), permit.Need{Group: group, Class: class}, func() { close(inLine) })
			if err == nil {
				order <- class
				p.Release()
			}
		})
		<-inLine
	}
	p.Release()
	all.Wait()
	close(order)
	var got []permit.Class
	for class := range order {
		got = append(got, class)
	}
	require.Equal(t, []permit.Class{permit.Interactive, permit.Interactive, permit.Batch, permit.Batch}, got)
}

func TestGivingUpInLineLosesNoPermit(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 1)
	r := c.start("only", c.client)
	for range 50 {
		p := r.hold(t, 1)[0]
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if p, err := r.acquire(ctx, permit.Interactive); err == nil {
				p.Release()
			}
		}()
		go cancel() // races with the release
		p.Release()
		<-done
	}
	r.hold(t, 1)[0].Release()
}

func TestADeadReplicasPermitsReturn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, 2)
	own := redis.NewClient(&redis.Options{Addr: c.client.(*redis.Client).Options().Addr})
	dying := c.start("dying", own)
	dying.hold(t, 2)
	require.NoError(t, own.Close()) // it cannot say anything any more
	alive := c.start("alive", c.client)
	began := clock.System().Now()
	alive.hold(t, 2)
	require.Less(t, clock.System().Now().Sub(began), 3*ttl)
}

func TestAReplicaThatLeavesGivesBackAtOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, 2)
	all := c.replicas()
	for _, p := range all[0].hold(t, 2) {
		p.Release()
	}
	all[0].stop()
	p, err := c.client.HGet(t.Context(), c.key(), "r:replica-0").Result()
	require.NoError(t, err)
	require.Regexp(t, `"k":\[0,0\]`, p)
	all[1].hold(t, 2)
}

// What one replica has it must share as its calls end, however many of its own are in line.
func TestReplicasShareWhatIsScarce(t *testing.T) {
	t.Parallel()
	const line = 2000
	c := newCluster(t, 8, 2)
	all := c.replicas()
	var first, second gauge
	busy := calls(t, all[0], &first, 100, line/100)
	calls(t, all[1], &second, 4, 10).Wait()
	require.Less(t, first.total.Load(), int64(line*3/4), "the second did not wait for the end of the first one's line")
	require.Equal(t, int64(4), second.most.Load(), "and had its half")
	busy.Wait()
}

func TestOnePermitGoesRound(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2)
	var g gauge
	all := c.replicas()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var busy sync.WaitGroup
	for range 4 { // the first replica never stops asking
		busy.Go(func() {
			for {
				p, err := all[0].acquire(ctx, permit.Interactive)
				if err != nil {
					return
				}
				g.enter()
				_ = clock.System().Sleep(ctx, time.Millisecond)
				g.leave()
				p.Release()
			}
		})
	}
	calls(t, all[1], &g, 2, 5).Wait()
	cancel()
	busy.Wait()
	require.Equal(t, int64(1), g.most.Load())
}

func TestWhenRedisForgetsNothingIsAdmittedTwice(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4, 2)
	all := c.replicas()
	held := append(all[0].hold(t, 2), all[1].hold(t, 2)...)
	require.NoError(t, c.client.Del(t.Context(), c.key()).Err()) // as FLUSHALL does
	all[0].refused(t, 3*ttl)
	all[1].refused(t, 3*ttl)
	held[0].Release()
	all[1].hold(t, 1) // and what is free is given out again
}

// A replica that comes up just after Redis has forgotten everything must wait until the others have spoken.
func TestANewcomerWaitsForTheOthers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, 2)
	old := c.start("old", c.client)
	old.hold(t, 2)
	require.NoError(t, c.client.Del(t.Context(), c.key()).Err())
	c.start("new", c.client).refused(t, 3*ttl)
}

func TestTheFirstReplicaAloneNeedNotWait(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 1)
	began := clock.System().Now()
	c.start("only", c.client).hold(t, 1)
	require.Less(t, clock.System().Now().Sub(began), ttl)
}

func TestWithoutRedisAReplicaKeepsToItsShare(t *testing.T) {
	t.Parallel()
	server := testkit.PrivateRedis(t)
	keys := testkit.KeysAt(t, server.URL())
	c := &cluster{t: t, client: keys.Client, prefix: keys.Prefix, limit: permit.Limit{Concurrency: 6}, size: 3}
	r := c.start("one of three", c.client)
	held := r.hold(t, 3)
	server.Kill()
	testkit.Eventually(t, soon, func() error {
		if !r.degraded.Load() {
			return errors.New("not degraded")
		}
		return nil
	})
	r.refused(t, 100*time.Millisecond) // 3 are in flight, and the share is 2
	held[0].Release()
	r.refused(t, 100*time.Millisecond)
	held[1].Release()
	held = append(held[2:], r.hold(t, 1)...)
	r.refused(t, 100*time.Millisecond)

	require.NoError(t, server.Start(t.Context()))
	held = append(held, r.hold(t, 4)...) // the whole limit again, once the others have had time to speak
	require.False(t, r.degraded.Load())
	for _, p := range held {
		p.Release()
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
