package llmgateway

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/llmgateway/store"
	"pawl.internal/services/testkit"
)

// newLease returns a lease of ten seconds that nobody renews, and its clock.
func newLease(t *testing.T) (*lease, *clocktest.Fake) {
	t.Helper()
	database, fake := testkit.Postgres(t, store.Schema()), clocktest.New()
	return &lease{
		store: store.New(database.Pool, database.Pool, 1), clock: fake, log: slog.New(slog.DiscardHandler),
		holder: ids.New(fake).V4(), length: 10 * time.Second,
	}, fake
}

// What was written down under a lease that has run out may have been judged: that the lease was renewed since, before the
// process that stood still looks at it again, does not make it good.
func TestI06_ALeaseThatWasRenewedTooLateIsNotGoodForWhatWasBefore(t *testing.T) {
	t.Parallel()
	l, fake := newLease(t)
	require.False(t, l.goodSince(fake.Now()), "there is none yet")
	require.NoError(t, l.renew(t.Context()))
	recorded := fake.Now()
	require.True(t, l.goodSince(recorded))
	fake.Advance(8 * l.interval())
	require.False(t, l.goodSince(recorded), "nearly over")
	require.NoError(t, l.renew(t.Context()))
	require.True(t, l.goodSince(recorded), "renewed in time")

	fake.Advance(l.length)
	require.NoError(t, l.renew(t.Context()))
	require.True(t, l.fresh())
	require.False(t, l.goodSince(recorded), "it was over in between")
	require.True(t, l.goodSince(fake.Now()))
}

// The right to judge others comes with one whole lease of uninterrupted writes, and goes with the first break.
func TestOnlyASteadyGatewayMayJudge(t *testing.T) {
	t.Parallel()
	l, fake := newLease(t)
	renew := func(times int) {
		for range times {
			fake.Advance(l.interval())
			require.NoError(t, l.renew(t.Context()))
		}
	}
	require.False(t, l.fresh())
	require.False(t, l.mayJudge())
	require.NoError(t, l.renew(t.Context()))
	require.True(t, l.fresh())
	renew(9)
	require.False(t, l.mayJudge())
	renew(1)
	require.True(t, l.mayJudge())

	fake.Advance(4 * l.interval()) // the database, or this gateway, stood still
	require.True(t, l.fresh())
	require.False(t, l.mayJudge(), "a look that took so long tells nothing of the others")
	renew(1)
	require.False(t, l.mayJudge())
	renew(10)
	require.True(t, l.mayJudge())

	fake.Advance(8 * l.interval())
	require.False(t, l.fresh())
	require.Equal(t, 1, l.replicas())
}
