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

// The right to judge others comes with one whole lease of uninterrupted writes, and goes with the first break.
func TestOnlyASteadyGatewayMayJudge(t *testing.T) {
	t.Parallel()
	database := testkit.Postgres(t, store.Schema())
	fake := clocktest.New()
	l := &lease{
		store: store.New(database.Pool, database.Pool, 1), clock: fake, log: slog.New(slog.DiscardHandler),
		holder: ids.New(fake).V4(), length: 10 * time.Second,
	}
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
	renew(1)
	require.False(t, l.mayJudge())
	renew(10)
	require.True(t, l.mayJudge())

	fake.Advance(8 * l.interval())
	require.False(t, l.fresh())
	require.Equal(t, 1, l.replicas())
}
