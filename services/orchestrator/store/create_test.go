package store_test

import (
	"crypto/sha256"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// again is another submit of the same request.
func (b *bench) again(n *store.NewRun) *store.NewRun {
	repeated := *n
	repeated.ID = b.ids.V7()
	return &repeated
}

func TestEqualKeysInOneGroup(t *testing.T) {
	b := setup(t)
	b.chain("chain", 1)
	first := b.newRun("chain")
	submits := make([]*store.NewRun, 100)
	for i := range submits {
		submits[i] = b.again(first)
	}
	other := b.again(first)
	digest := sha256.Sum256([]byte("another request"))
	other.RequestDigest = digest[:]

	// A transaction that holds the key makes all but the first group wait, and so share one.
	blocker := b.begin()
	_, err := blocker.Exec(t.Context(), `LOCK TABLE core.idempotency IN SHARE MODE`)
	require.NoError(t, err)
	errs := make([]error, len(submits))
	var all sync.WaitGroup
	for i, n := range submits {
		all.Go(func() { errs[i] = b.store.CreateRun(t.Context(), n) })
	}
	b.awaitWaiting(1)
	require.NoError(t, blocker.Commit(t.Context()))
	all.Wait()

	found := map[uuid.UUID]int{}
	replayed := 0
	for i, n := range submits {
		require.NoError(t, errs[i])
		found[n.Found]++
		if n.Replayed {
			replayed++
		}
	}
	require.Len(t, found, 1, "one run for all")
	require.Equal(t, len(submits)-1, replayed)
	require.Equal(t, 1, b.count(`core.pipeline_run`))
	require.ErrorIs(t, b.store.CreateRun(t.Context(), other), store.ErrKeyReused)
}

// Two replicas create with one key at once: the second waits for the first's transaction and then reads, in a new
// statement, what that has committed.
func TestEqualKeysOnTwoReplicas(t *testing.T) {
	b := setup(t)
	two := b.replica()
	b.chain("chain", 1)
	n := b.newRun("chain")
	winner := b.ids.V7()
	blocker := b.begin()
	_, err := blocker.Exec(t.Context(), `
		INSERT INTO core.idempotency (tenant, key, request_digest, kind, resource_id, expires_at)
		VALUES ($1, $2, $3, 'run', $4, now() + interval '1 day')`, tenant, n.Key, n.RequestDigest, winner)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- two.store.CreateRun(t.Context(), n) }()
	b.awaitWaiting(1)
	require.NoError(t, blocker.Commit(t.Context()))
	require.NoError(t, <-done)
	require.True(t, n.Replayed)
	require.Equal(t, winner, n.Found)
	require.Zero(t, b.count(`core.pipeline_run`))
}

func TestRefusedCreationsChangeNothing(t *testing.T) {
	b := setup(t)
	b.chain("chain", 1)
	unknown := b.newRun("nothing")
	require.ErrorIs(t, b.store.CreateRun(t.Context(), unknown), store.ErrNoPipeline)
	version := b.newRun("chain")
	version.Version = "v2"
	require.ErrorIs(t, b.store.CreateRun(t.Context(), version), store.ErrNoPipeline)
	foreign := b.newRun("chain")
	foreign.Tenant = "other"
	require.ErrorIs(t, b.store.CreateRun(t.Context(), foreign), store.ErrNoPipeline)
	require.Zero(t, b.count(`core.pipeline_run`))
	require.Zero(t, b.count(`core.idempotency`), "a refused creation does not use its key up")

	// The same key may be used once the pipeline is there, and answers afterwards even when the pipeline is asked for
	// under a name that does not exist.
	b.chain("nothing", 1)
	require.NoError(t, b.store.CreateRun(t.Context(), b.again(unknown)))
	replay := b.again(unknown)
	replay.Pipeline = "gone"
	require.NoError(t, b.store.CreateRun(t.Context(), replay))
	require.True(t, replay.Replayed)
}

func TestReplayTellsTheStateOfNow(t *testing.T) {
	b := setup(t)
	b.chain("chain", 1)
	n := b.newRun("chain")
	require.NoError(t, b.store.CreateRun(t.Context(), n))
	require.Equal(t, machine.RunQueued, n.Status)
	b.submit(b.succeed(b.grant(b.next(n.ID)), `1`))
	replay := b.again(n)
	require.NoError(t, b.store.CreateRun(t.Context(), replay))
	require.Equal(t, machine.RunDone, replay.Status)
	require.Equal(t, n.ID, replay.Found)
}

func TestNewestVersionIsByNumber(t *testing.T) {
	b := setup(t)
	for _, version := range []string{"v9", "v10", "v2"} {
		text := `{"Name":"many","Salt":0,"Steps":[{"Name":"` + version + `"}]}`
		digest := sha256.Sum256([]byte(text))
		_, err := b.database.Pool.Exec(t.Context(),
			`INSERT INTO core.pipeline (tenant, name, version, digest, source) VALUES ($1, 'many', $2, $3, $4)`,
			tenant, version, digest[:], text)
		require.NoError(t, err)
	}
	require.Equal(t, "v10", b.next(b.create("many")).Step)
	pinned := b.newRun("many")
	pinned.Version = "v2"
	require.NoError(t, b.store.CreateRun(t.Context(), pinned))
	require.Equal(t, "v2", b.next(pinned.ID).Step)
}
