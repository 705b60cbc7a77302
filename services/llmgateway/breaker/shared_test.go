package breaker_test

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
	"pawl.internal/services/llmgateway/breaker"
	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const soon = 15 * time.Second

// replica is a Set that runs, as one process would have it.
type replica struct {
	*breaker.Set
	open atomic.Bool
	stop func()
}

// cluster makes replicas that share their breakers.
type cluster struct {
	t      *testing.T
	client redis.UniversalClient
	prefix string
	cfg    breaker.Config
}

func newCluster(t *testing.T, cfg breaker.Config) *cluster {
	t.Helper()
	keys := testkit.Redis(t)
	return &cluster{t: t, client: keys.Client, prefix: keys.Prefix, cfg: cfg}
}

func (c *cluster) start(name string) *replica {
	c.t.Helper()
	r := &replica{}
	r.Set = breaker.New(breaker.Deps{
		Redis: c.client, Prefix: c.prefix, Replica: name, Clock: clock.System(), Log: slog.New(slog.DiscardHandler),
		Changed: func(_ string, open bool) { r.open.Store(open) }, Gone: func(string) {},
	})
	r.Retain(map[string]breaker.Config{target: c.cfg})
	ctx, cancel := context.WithCancel(c.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	r.stop = func() { cancel(); running.Wait() }
	c.t.Cleanup(r.stop)
	return r
}

func (c *cluster) replicas(n int) []*replica {
	list := make([]*replica, n)
	for i := range list {
		list[i] = c.start(fmt.Sprint("replica-", i))
	}
	return list
}

func (r *replica) send(t *testing.T, result breaker.Result) {
	t.Helper()
	pass, wait := r.Enter(t.Context(), target)
	require.NotNil(t, pass, "it rests for %s", wait)
	pass.Done(result)
}

// await waits until all replicas know whether the target rests.
func await(t *testing.T, replicas []*replica, open bool) {
	t.Helper()
	testkit.Eventually(t, soon, func() error {
		for i, r := range replicas {
			if r.open.Load() != open {
				return fmt.Errorf("replica %d thinks that open is %v", i, !open)
			}
		}
		return nil
	})
}

// storm asks on all replicas at once, again and again, until somebody is let through, and a while more. It returns all who
// were.
func storm(t *testing.T, replicas []*replica) []*breaker.Pass {
	t.Helper()
	const each, while = 10, 300 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	var mu sync.Mutex
	var passes []*breaker.Pass
	var all sync.WaitGroup
	for _, r := range replicas {
		for range each {
			all.Go(func() {
				for ctx.Err() == nil {
					pass, _ := r.Enter(ctx, target)
					if pass == nil {
						_ = clock.System().Sleep(ctx, time.Millisecond)
						continue
					}
					mu.Lock()
					passes = append(passes, pass)
					if len(passes) == 1 {
						all.Go(func() {
							_ = clock.System().Sleep(ctx, while)
							cancel()
						})
					}
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	return passes
}

// After each pause exactly one request over all replicas tries the target.
func TestOneProbeOverAllReplicas(t *testing.T) {
	t.Parallel()
	c := newCluster(t, breaker.Config{Failures: 3, Window: time.Minute, Pause: 100 * time.Millisecond})
	replicas := c.replicas(3)
	for range 3 {
		replicas[0].send(t, breaker.Failure)
	}
	await(t, replicas, true)
	for round := range 5 {
		passes := storm(t, replicas)
		require.Len(t, passes, 1, "round %d", round)
		require.True(t, passes[0].Probe())
		passes[0].Done(breaker.Failure)
	}
	passes := storm(t, replicas)
	require.Len(t, passes, 1)
	passes[0].Done(breaker.Success)
	await(t, replicas, false)
	for _, r := range replicas {
		r.send(t, breaker.Success)
	}
}

func TestFailuresCountOverAllReplicas(t *testing.T) {
	t.Parallel()
	c := newCluster(t, breaker.Config{Failures: 9, Window: time.Minute, Pause: time.Minute})
	replicas := c.replicas(3)
	for _, r := range replicas {
		for range 2 {
			r.send(t, breaker.Failure)
			r.send(t, breaker.Success)
		}
	}
	for i, r := range replicas {
		require.False(t, r.open.Load(), "replica %d", i)
		r.send(t, breaker.Failure)
	}
	await(t, replicas, true)
	late := c.start("late")
	await(t, []*replica{late}, true)
}

// A probe may take longer than its token is good, as long as its replica lives. When that dies, another replica has its turn.
func TestTheProbeOfADeadReplicaIsReplaced(t *testing.T) {
	t.Parallel()
	c := newCluster(t, breaker.Config{Failures: 1, Window: time.Minute, Pause: 100 * time.Millisecond})
	holder, other := c.start("holder"), c.start("other")
	holder.send(t, breaker.Failure)
	await(t, []*replica{holder, other}, true)
	probe := storm(t, []*replica{holder})[0]
	const tokenTTL = 3 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), tokenTTL+time.Second)
	defer cancel()
	for ctx.Err() == nil {
		pass, _ := other.Enter(ctx, target)
		require.True(t, pass == nil || errors.Is(ctx.Err(), context.DeadlineExceeded), "there are two probes")
		_ = clock.System().Sleep(ctx, 5*time.Millisecond)
	}
	holder.stop()
	storm(t, []*replica{other})[0].Done(breaker.Success)
	await(t, []*replica{other}, false)
	probe.Done(breaker.Failure) // of a replica that is dead: nobody hears it
	other.send(t, breaker.Success)
}

// While Redis is away every replica decides alone, and what it has found out it tells when Redis is back.
func TestWhatWasSeenWithoutRedisIsToldLater(t *testing.T) {
	t.Parallel()
	c := newCluster(t, breaker.Config{Failures: 2, Window: time.Minute, Pause: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hidden := &hiding{UniversalClient: c.client}
	hidden.away.Store(true)
	c.client = hidden
	lonely := c.start("lonely")
	c.client = hidden.UniversalClient
	other := c.start("other")
	lonely.send(t, breaker.Failure)
	lonely.send(t, breaker.Failure)
	require.True(t, lonely.open.Load())
	require.False(t, other.open.Load())
	hidden.away.Store(false)
	await(t, []*replica{lonely, other}, true)
	_, wait := other.Enter(ctx, target)
	require.Greater(t, wait, 50*time.Second)
}

// hiding is a Redis that can be made to look away.
type hiding struct {
	redis.UniversalClient
	away atomic.Bool
}

func (h *hiding) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	if h.away.Load() {
		cmd := redis.NewCmd(ctx)
		cmd.SetErr(errors.New("away"))
		return cmd
	}
	return h.UniversalClient.EvalSha(ctx, sha, keys, args...)
}
