package orchestrator

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
	"pawl.internal/services/testkit"
)

// openStore returns a store on the database, which does not commit yet.
func openStore(t *testing.T, database *testkit.Database) *store.Store {
	t.Helper()
	pool, err := pg.Open(t.Context(), pg.Config{URL: config.NewSecret(database.URL), MaxConns: 4, Settings: pg.ByKey()}, "test")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	codec, err := store.NewCodec()
	require.NoError(t, err)
	compile, err := NewCompile()
	require.NoError(t, err)
	return store.New(store.Deps{
		Pool: pool, Control: pool, Clock: clock.System(), IDs: ids.New(clock.System()), Compile: compile, Codec: codec,
		Window: store.NewWindow(), Publish: func(store.Notices) {}, Random: store.NewRandom(1),
	}, store.Config{Lanes: 1, Lease: time.Minute})
}

// A bound passes only what has had its event: what is due while no events are committed is found again.
func TestBoundWaitsForCommits(t *testing.T) {
	t.Parallel()
	database := testkit.Postgres(t, store.Schema())
	working, away := openStore(t, database), openStore(t, database)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- working.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	const source = "name: p\nversion: v1\ninput: {type: object}\ndeadline: 1s\nsteps: [{name: a, transform: \"${input}\"}]"
	compiled, err := working.CompileSource(source)
	require.NoError(t, err)
	_, _, err = working.CreatePipeline(t.Context(), "acme", compiled, source, "")
	require.NoError(t, err)
	input, err := working.Codec().Document([]byte(`{}`))
	require.NoError(t, err)
	digest := sha256.Sum256(nil)
	run := &store.NewRun{
		ID: ids.New(clock.System()).V7(), Tenant: "acme", Key: "k", RequestDigest: digest[:], Kind: "run", Pipeline: "p",
		Input: input, Class: machine.Interactive,
	}
	require.NoError(t, working.CreateRun(t.Context(), run))
	_, err = database.Pool.Exec(t.Context(), `UPDATE core.pipeline_run SET deadline_at = now() - interval '1 minute'`)
	require.NoError(t, err)

	s := newSweeper(away, &judge{}, clocktest.New(), slog.New(slog.DiscardHandler), newMetrics(prometheus.NewRegistry()))
	soon, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, _, err = s.look(soon)
	require.Error(t, err, "nothing is committed")
	require.Zero(t, s.deadlines.from)
	require.NotZero(t, s.timers.from, "there were none")

	s.store = working
	_, _, err = s.look(t.Context())
	require.NoError(t, err)
	require.NotZero(t, s.deadlines.from)
	view, _, err := working.ReadRun(t.Context(), "acme", run.ID)
	require.NoError(t, err)
	require.Equal(t, string(machine.ReasonDeadlineExceeded), view.Reason)
}
