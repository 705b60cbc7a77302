package stream_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/stream"
	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const block = 20 * time.Millisecond

type bundle struct {
	*stream.Stream
	client redis.UniversalClient
	key    string
}

func setup(t *testing.T) *bundle {
	t.Helper()
	return setupAt(testkit.Redis(t))
}

func setupAt(keys *testkit.Keys) *bundle {
	key := keys.Prefix + ":{steps}:batch"
	return &bundle{Stream: stream.New(keys.Client, key, "runners"), client: keys.Client, key: key}
}

// awaitBlocked waits until a read blocks; the server must be the test's own.
func (b *bundle) awaitBlocked(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, 5*time.Second, func() error {
		info, err := b.client.Info(t.Context(), "clients").Result()
		if err == nil && !strings.Contains(info, "blocked_clients:1") {
			err = errors.New("nobody blocks")
		}
		return err
	})
}

func (b *bundle) publish(t *testing.T, names ...string) {
	t.Helper()
	entries := make([]stream.Fields, len(names))
	for i, name := range names {
		entries[i] = stream.Fields{"run": name, "step": "s", "shard": "-1"}
	}
	require.NoError(t, b.Publish(t.Context(), entries))
}

func (b *bundle) read(t *testing.T, consumer string, count int) []stream.Message {
	t.Helper()
	messages, err := b.Read(t.Context(), consumer, count, block)
	require.NoError(t, err)
	return messages
}

func runs(messages []stream.Message) []string {
	var names []string
	for _, m := range messages {
		names = append(names, m.Fields["run"])
	}
	return names
}

func (b *bundle) len(t *testing.T) int64 {
	t.Helper()
	n, err := b.Len(t.Context())
	require.NoError(t, err)
	return n
}

func TestEntriesGoToOneConsumerEachAndAreGoneWhenAcknowledged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.publish(t, "a", "b", "c")
	first, second := b.read(t, "one", 2), b.read(t, "two", 2)
	require.Equal(t, []string{"a", "b"}, runs(first))
	require.Equal(t, []string{"c"}, runs(second))
	require.Equal(t, stream.Fields{"run": "a", "step": "s", "shard": "-1"}, first[0].Fields)
	require.Equal(t, int64(3), b.len(t))
	require.NoError(t, b.Ack(t.Context(), first[0].ID, first[1].ID))
	require.Equal(t, int64(1), b.len(t))
	pending, err := b.Pending(t.Context(), "one", 10)
	require.NoError(t, err)
	require.Empty(t, pending)
	require.NoError(t, b.Publish(t.Context(), nil))
	require.NoError(t, b.Ack(t.Context()))
}

func TestReadWaitsForAnEntryButNotForever(t *testing.T) {
	t.Parallel()
	b := setupAt(testkit.KeysAt(t, testkit.PrivateRedis(t).URL()))
	require.Empty(t, b.read(t, "one", 1))
	got := make(chan []stream.Message, 1)
	go func() {
		messages, _ := b.Read(t.Context(), "one", 1, 10*time.Second)
		got <- messages
	}()
	b.awaitBlocked(t)
	b.publish(t, "late")
	require.Equal(t, []string{"late"}, runs(<-got))
}

func TestMissingStreamAndGroupAreMadeAnew(t *testing.T) {
	t.Parallel()
	b := setup(t)
	age, err := b.AgeOfOldestUndelivered(t.Context())
	require.NoError(t, err)
	require.Zero(t, age)
	consumers, err := b.Consumers(t.Context())
	require.NoError(t, err)
	require.Empty(t, consumers)
	pending, err := b.Pending(t.Context(), "one", 10)
	require.NoError(t, err)
	require.Empty(t, pending)
	require.NoError(t, b.DeleteConsumer(t.Context(), "one"))
	require.NoError(t, b.Ack(t.Context(), "1-1"))
	require.Zero(t, b.len(t))

	b.publish(t, "before the group")
	require.Equal(t, []string{"before the group"}, runs(b.read(t, "one", 1)))
	require.NoError(t, b.client.XGroupDestroy(t.Context(), b.key, "runners").Err())
	require.Equal(t, []string{"before the group"}, runs(b.read(t, "one", 1)), "a new group delivers everything again")
	require.NoError(t, b.client.Del(t.Context(), b.key).Err())
	require.Empty(t, b.read(t, "one", 1))
	require.NoError(t, b.EnsureGroup(t.Context()))
	b.publish(t, "after")
	require.Equal(t, []string{"after"}, runs(b.read(t, "one", 1)))
}

func TestStreamDeletedUnderABlockedRead(t *testing.T) {
	t.Parallel()
	b := setupAt(testkit.KeysAt(t, testkit.PrivateRedis(t).URL()))
	require.NoError(t, b.EnsureGroup(t.Context()))
	got := make(chan error, 1)
	go func() {
		_, err := b.Read(t.Context(), "one", 1, 500*time.Millisecond)
		got <- err
	}()
	b.awaitBlocked(t)
	require.NoError(t, b.client.Del(t.Context(), b.key).Err())
	require.NoError(t, <-got)
}

func TestEntriesOfADeadConsumerCanBeFoundAndCleared(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.publish(t, "a", "b", "c")
	held := b.read(t, "dead", 3)
	require.NoError(t, b.client.XDel(t.Context(), b.key, held[1].ID).Err())
	consumers, err := b.Consumers(t.Context())
	require.NoError(t, err)
	require.Len(t, consumers, 1)
	require.Equal(t, "dead", consumers[0].Name)
	require.Equal(t, int64(3), consumers[0].Pending)

	pending, err := b.Pending(t.Context(), "dead", 2)
	require.NoError(t, err)
	require.Equal(t, []stream.Message{held[0], {ID: held[1].ID}}, pending)
	require.NoError(t, b.Ack(t.Context(), held[0].ID, held[1].ID, held[2].ID))
	require.NoError(t, b.DeleteConsumer(t.Context(), "dead"))
	consumers, err = b.Consumers(t.Context())
	require.NoError(t, err)
	require.Empty(t, consumers)
}

func TestAgeCountsFromTheFirstEntryNobodyGot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.NoError(t, b.EnsureGroup(t.Context()))
	now, err := b.client.Time(t.Context()).Result()
	require.NoError(t, err)
	for i, ago := range []time.Duration{time.Hour, time.Minute, time.Second} {
		id := redis.XAddArgs{Stream: b.key, ID: idAt(now.Add(-ago)), Values: []string{"run", string(rune('a' + i))}}
		require.NoError(t, b.client.XAdd(t.Context(), &id).Err())
	}
	for _, want := range []time.Duration{time.Hour, time.Minute, time.Second, 0} {
		age, err := b.AgeOfOldestUndelivered(t.Context())
		require.NoError(t, err)
		require.InDelta(t, want.Seconds(), age.Seconds(), 0.9)
		b.read(t, "one", 1)
	}
	require.NoError(t, b.client.XGroupDestroy(t.Context(), b.key, "runners").Err())
	age, err := b.AgeOfOldestUndelivered(t.Context())
	require.NoError(t, err)
	require.Greater(t, age, 59*time.Minute, "without a group everything waits")
}

func TestAStreamThatCannotServeIsToldFromOneThatDoes(t *testing.T) {
	t.Parallel()
	now := time.Now()
	add := func(b *bundle, id string) error {
		return b.client.XAdd(t.Context(), &redis.XAddArgs{Stream: b.key, ID: id, Values: []string{"run", "x"}}).Err()
	}
	for name, c := range map[string]struct {
		spoil func(b *bundle) error
		why   string
	}{
		"missing":           {func(*bundle) error { return nil }, ""},
		"empty":             {func(b *bundle) error { return b.EnsureGroup(t.Context()) }, ""},
		"without its group": {func(b *bundle) error { return add(b, "*") }, ""},
		"all delivered": {func(b *bundle) error {
			err := add(b, "*")
			b.read(t, "one", 1)
			return err
		}, ""},
		"trimmed": {func(b *bundle) error {
			err := add(b, "*")
			b.read(t, "one", 1)
			return errors.Join(err, b.client.XTrimMaxLen(t.Context(), b.key, 0).Err())
		}, ""},
		"a clock a little off": {func(b *bundle) error { return add(b, idAt(now.Add(30*time.Second))) }, ""},
		"a clock far off":      {func(b *bundle) error { return add(b, idAt(now.Add(time.Hour))) }, "ahead of Redis's clock"},
		"no ids left": {
			func(b *bundle) error { return add(b, "18446744073709551615-18446744073709551615") }, "ahead of Redis's clock",
		},
		"another kind": {func(b *bundle) error { return b.client.Set(t.Context(), b.key, "x", 0).Err() }, "no stream"},
		"a group that is ahead": {func(b *bundle) error {
			return errors.Join(b.EnsureGroup(t.Context()), b.client.XGroupSetID(t.Context(), b.key, "runners", "5-0").Err())
		}, "more than there ever was"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			require.NoError(t, c.spoil(b))
			why, err := b.Unfit(t.Context())
			require.NoError(t, err)
			if c.why == "" {
				require.Empty(t, why)
				return
			}
			require.Contains(t, why, c.why)
			require.NoError(t, b.Delete(t.Context()))
			b.publish(t, "after")
			require.Equal(t, []string{"after"}, runs(b.read(t, "one", 1)))
		})
	}
}

func idAt(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) + "-0" }

func TestConsumptionResumesAfterRedisWasAway(t *testing.T) {
	t.Parallel()
	server := testkit.PrivateRedis(t)
	s := setupAt(testkit.KeysAt(t, server.URL()))
	require.NoError(t, s.EnsureGroup(t.Context()))
	for range 5 {
		server.Kill()
		_, err := s.Read(t.Context(), "one", 1, block)
		require.Equal(t, codes.Unavailable, fault.CodeOf(err))
		require.Equal(t, codes.Unavailable, fault.CodeOf(s.Publish(t.Context(), []stream.Fields{{"run": "x"}})))
		require.NoError(t, server.Start(t.Context()))
		testkit.Eventually(t, 5*time.Second, func() error { return s.Publish(t.Context(), []stream.Fields{{"run": "a"}}) })
		require.Equal(t, "a", readOne(t, s))
	}
	require.NoError(t, s.client.FlushAll(t.Context()).Err())
	require.NoError(t, s.Publish(t.Context(), []stream.Fields{{"run": "b"}}))
	require.Equal(t, "b", readOne(t, s))
}

func readOne(t *testing.T, s *bundle) string {
	t.Helper()
	messages := s.read(t, "one", 1)
	require.Len(t, messages, 1)
	require.NoError(t, s.Ack(t.Context(), messages[0].ID))
	return messages[0].Fields["run"]
}

func TestHangingRedisDoesNotHoldAReadForLong(t *testing.T) {
	t.Parallel()
	server := testkit.PrivateRedis(t)
	s := setupAt(testkit.KeysAt(t, server.URL()))
	require.NoError(t, s.EnsureGroup(t.Context()))
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := s.Read(ctx, "one", 1, block)
	require.Error(t, err)
	require.NoError(t, ctx.Err(), "the read took as long as its caller allowed, not as long as it should")
	server.Resume()
	testkit.Eventually(t, 5*time.Second, func() error {
		_, err := s.Read(t.Context(), "one", 1, block)
		return err
	})
}
