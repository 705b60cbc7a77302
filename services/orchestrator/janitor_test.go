package orchestrator_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/testkit"
)

// An entry is lost when its step has been QUEUED for longer than the oldest entry that nobody has taken. Until then it may
// only wait in line.
func TestLostEntriesAreAddedAgainAndNotBefore(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	inLine, lost := r.create("chain", `{"text": 1}`), r.create("chain", `{"text": 1}`)
	r.published(inLine, lost)
	// The head of the line has waited for six seconds; neither of the two has an entry in it.
	head := fmt.Sprintf("%d-0", time.Now().Add(-6*time.Second).UnixMilli())
	_, err := r.redis.Client.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Del(t.Context(), r.interactive())
		p.XAdd(t.Context(), &redis.XAddArgs{Stream: r.interactive(), ID: head, Values: []string{"run", uuid.NewString()}})
		return nil
	})
	require.NoError(t, err)
	r.exec(`UPDATE core.step_live SET queued_at = now() - CASE run_id WHEN $1 THEN interval '9 s' ELSE interval '13 s' END`, inLine)
	r.published(lost)
	require.NotContains(t, r.entries(), inLine.String())

	require.NoError(t, r.redis.Client.XDel(t.Context(), r.interactive(), head).Err())
	r.published(inLine)
	require.Len(t, r.entries(), 2)
}

// What Redis forgets is added again, and everything goes on: nothing is lost, nothing is done twice.
func TestI03_FlushedRedisLosesNothing(t *testing.T) {
	t.Parallel()
	stores := newStores(t)
	stores.redis = testkit.KeysAt(t, testkit.PrivateRedis(t).URL())
	r := stores.replica(t)
	r.register(chain)
	n := r.newRunner()
	runs := []uuid.UUID{r.create("chain", `{"text": 1}`)}
	running := n.take()
	for range 3 {
		runs = append(runs, r.create("chain", `{"text": 1}`))
	}
	r.published(runs[1:]...)
	require.NoError(t, r.redis.Client.FlushAll(t.Context()).Err())
	for _, run := range runs {
		r.backdateQueued(run, 10*time.Second)
	}
	n.stored(running.succeeded(`1`))
	for range 3*len(runs) - 1 {
		n.stored(n.take().succeeded(`1`))
	}
	for _, run := range runs {
		require.Equal(t, pawlv1.RunStatus_RUN_STATUS_DONE, r.run(run).GetStatus())
	}
	require.Zero(t, r.count(`core.pipeline_step_result WHERE attempt <> 1`))
}

func TestMissingGroupIsMadeAnew(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	n := r.newRunner()
	first := r.create("chain", `{"text": 1}`)
	n.stored(n.take().succeeded(`1`))
	require.NoError(t, r.redis.Client.XGroupDestroy(t.Context(), r.interactive(), "runners").Err())
	second := r.create("chain", `{"text": 1}`)
	for range 5 {
		n.stored(n.take().succeeded(`1`))
	}
	for _, run := range []uuid.UUID{first, second} {
		require.Equal(t, pawlv1.RunStatus_RUN_STATUS_DONE, r.run(run).GetStatus())
	}
}

// Whatever others have made of the key of a stream, steps are handed out again: the stream is replaced.
func TestI03_AStreamThatCannotServeIsReplaced(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(r *replica) error{
		"another kind of value": func(r *replica) error {
			return errors.Join(r.redis.Client.Del(t.Context(), r.interactive()).Err(),
				r.redis.Client.Set(t.Context(), r.interactive(), "x", 0).Err())
		},
		"no ids left": func(r *replica) error {
			last := strconv.FormatUint(math.MaxUint64, 10)
			return r.redis.Client.XAdd(t.Context(), &redis.XAddArgs{
				Stream: r.interactive(), ID: last + "-" + last, Values: []string{"run", "x"},
			}).Err()
		},
		"a group that is ahead": func(r *replica) error {
			return r.redis.Client.XGroupSetID(t.Context(), r.interactive(), "runners", "9999999999999-0").Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			r.register(chain)
			n := r.newRunner()
			before := r.create("chain", `{"text": 1}`)
			first := n.take()
			require.NoError(t, spoil(r))
			after := r.create("chain", `{"text": 1}`)
			n.stored(first.succeeded(`1`))
			for range 5 {
				n.stored(n.take().succeeded(`1`))
			}
			for _, run := range []uuid.UUID{before, after} {
				require.Equal(t, pawlv1.RunStatus_RUN_STATUS_DONE, r.run(run).GetStatus())
			}
		})
	}
}

// Of a runner that dies, the entries are settled and the consumer is removed. A living one keeps its entries, however long
// its step takes.
func TestEntriesOfADeadRunnerAreSettled(t *testing.T) {
	t.Parallel()
	r := setup(t, lease(time.Second))
	r.register(chain)
	dead, living := r.newRunner(), r.newRunner()
	alive, dying := living.keepAlive(), dead.keepAlive()
	kept := r.create("chain", `{"text": 1}`)
	entry, ref := living.read()
	held, status := living.claim(ref)
	require.Equal(t, systemv1.ClaimStatus_CLAIM_STATUS_GRANTED, status)
	alive.hold(held.Hold)

	claimed, unclaimed := r.create("chain", `{"text": 1}`), r.create("chain", `{"text": 1}`)
	for range 2 {
		if _, ref := dead.read(); runOf(ref) == claimed {
			w, status := dead.claim(ref)
			require.Equal(t, systemv1.ClaimStatus_CLAIM_STATUS_GRANTED, status)
			dying.hold(w.Hold)
		}
	}
	dying.stop()
	// The dead one is found after a lease. What it held is taken up by the living one.
	for range 2 {
		again := living.take()
		alive.hold(again.Hold)
		require.Contains(t, []uuid.UUID{claimed, unclaimed}, runOf(again.Hold.GetStep()))
		living.stored(again.succeeded(`1`))
	}
	// The living one is busy, so that it asks for nothing: several looks find it idle for longer than a lease.
	testkit.Eventually(t, patience, func() error {
		consumers, err := living.steps.Consumers(t.Context())
		if err != nil {
			return err
		}
		if len(consumers) != 1 || consumers[0].Idle < 4*time.Second {
			return fmt.Errorf("the consumers are %v", consumers)
		}
		require.Equal(t, living.id.String(), consumers[0].Name)
		return nil
	})
	require.Equal(t, 1, r.count(`core.run_event WHERE run_id = $1 AND kind = 'lease_expired'`, claimed))
	require.Zero(t, r.count(`core.run_event WHERE run_id = $1 AND kind = 'lease_expired'`, unclaimed), "it was never claimed")
	pending, err := living.steps.Pending(t.Context(), living.id.String(), 10)
	require.NoError(t, err)
	require.Len(t, pending, 1)
	require.Equal(t, entry, pending[0].ID)
	require.Equal(t, 1, r.count(`core.step_live WHERE run_id = $1 AND status = 'running' AND attempt = 1`, kept))
}

// Entries that are none of ours, or whose content is gone, do not stop the janitor.
func TestStrangeEntriesAreRemoved(t *testing.T) {
	t.Parallel()
	r := setup(t, lease(time.Second))
	dead := r.newRunner()
	for _, values := range [][]string{
		{"run", "no uuid"},
		{"run", uuid.NewString(), "shard", "x"},
		{"run", uuid.NewString(), "shard", "-1", "generation", "x"},
		{"run", uuid.NewString(), "shard", "-1", "generation", "1", "step", "a"},
		{"gone", "1"},
	} {
		require.NoError(t, r.redis.Client.XAdd(t.Context(), &redis.XAddArgs{Stream: r.interactive(), Values: values}).Err())
	}
	var read []string
	for len(read) < 5 {
		messages, err := dead.steps.Read(t.Context(), dead.id.String(), 5, time.Second)
		require.NoError(t, err)
		for _, m := range messages {
			read = append(read, m.ID)
		}
	}
	require.NoError(t, r.redis.Client.XDel(t.Context(), r.interactive(), read[4]).Err())
	testkit.Eventually(t, patience, func() error {
		consumers, err := dead.steps.Consumers(t.Context())
		if err == nil && len(consumers) > 0 {
			err = errors.New("the consumer is still there")
		}
		return err
	})
	require.Empty(t, r.entries())
}

// Two replicas that find the same lost entry, or the same dead consumer, add one entry.
func TestReplicasAddALostEntryOnce(t *testing.T) {
	t.Parallel()
	stores := newStores(t)
	r := stores.replica(t)
	stores.replica(t)
	r.register(chain)
	var runs []uuid.UUID
	for range 10 {
		runs = append(runs, r.create("chain", `{"text": 1}`))
	}
	r.published(runs...)
	require.NoError(t, r.redis.Client.Del(t.Context(), r.interactive()).Err())
	r.exec(`UPDATE core.step_live SET queued_at = queued_at - interval '10 s'`)
	r.published(runs...)
	r.eventually(2, `core.replica WHERE seen_at > (SELECT max(queued_at) FROM core.step_live) + interval '3 s'`)
	entries := r.entries()
	slices.Sort(entries)
	require.Len(t, entries, len(runs))
	require.Len(t, slices.Compact(entries), len(runs))
}
