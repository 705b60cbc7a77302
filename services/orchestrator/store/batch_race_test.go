package store_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// A hundred submits of the same items, over two replicas, make each item once.
func TestManySubmitsOfTheSameItems(t *testing.T) {
	t.Parallel()
	const submits, n = 100, 20
	one := setup(t)
	two := one.replica()
	one.chain("chain", 1)
	batch := one.open("chain")
	found := make([][]*store.NewRun, submits)
	errs := make([][]error, submits)
	var all sync.WaitGroup
	for i := range submits {
		b := []*bench{one, two}[i%2]
		found[i] = b.items(batch, "chain", n)
		all.Go(func() { errs[i] = b.store.AddItems(t.Context(), found[i]) })
	}
	all.Wait()
	made := make([]int, n)
	for i, items := range found {
		for j, item := range items {
			require.NoError(t, errs[i][j])
			require.Equal(t, found[0][j].Found, item.Found)
			if !item.Replayed {
				made[j]++
			}
		}
	}
	for j := range made {
		require.Equal(t, 1, made[j], "item %d", j)
	}
	require.Equal(t, n, one.count(`core.pipeline_run WHERE batch_id = $1`, batch))
	one.requireExact(batch)
}

// meet lets an item be on its way into the batch, while others decide about the batch on another replica, and returns what
// became of the item. The decision must wait for the item's transaction.
func meet(t *testing.T, decide func(two *bench, batch uuid.UUID) error) (one *bench, batch uuid.UUID, added error) {
	t.Helper()
	one = setup(t)
	two := one.replica()
	one.chain("chain", 1)
	batch = one.open("chain")
	blocker := one.begin()
	_, err := blocker.Exec(t.Context(), `LOCK TABLE core.idempotency IN SHARE MODE`)
	require.NoError(t, err)
	adding, deciding := make(chan error, 1), make(chan error, 1)
	items := one.items(batch, "chain", 1)
	go func() { adding <- one.store.AddItems(t.Context(), items)[0] }()
	one.awaitWaiting(1)
	go func() { deciding <- decide(two, batch) }()
	one.awaitWaiting(2)
	require.NoError(t, blocker.Commit(t.Context()))
	added = <-adding
	require.NoError(t, <-deciding)
	return one, batch, added
}

// An item that is being made when its batch is cancelled is there when the cancel looks for what to stop.
func TestCancelWaitsForItemsOnTheirWay(t *testing.T) {
	t.Parallel()
	b, batch, added := meet(t, func(two *bench, batch uuid.UUID) error { return two.decide(batch, "cancel") })
	require.NoError(t, added)
	b.workAll(10)
	counts, _ := b.counted(batch)
	require.Equal(t, map[string]int64{"cancelled": 1}, counts)
	require.Zero(t, b.count(`core.step_live`))
}

// A batch is not sealed while an item is on its way: it would end, and its client be told, before all items are there.
func TestSealWaitsForItemsOnTheirWay(t *testing.T) {
	t.Parallel()
	b, batch, added := meet(t, func(two *bench, batch uuid.UUID) error {
		return two.store.SealBatch(two.t.Context(), tenant, batch)
	})
	require.NoError(t, added)
	require.NoError(t, b.store.EndBatches(t.Context()))
	require.Zero(t, b.count(`core.batch WHERE finished_at IS NOT NULL`))
	_, total := b.counted(batch)
	require.EqualValues(t, 1, total)
}

// After a cancel nothing new is made; what was made before is still found.
func TestCancelledBatchTakesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chain("chain", 1)
	batch := b.open("chain")
	require.Equal(t, 2, b.add(b.items(batch, "chain", 2)))
	require.NoError(t, b.decide(batch, "cancel"))
	repeated := b.items(batch, "chain", 3)
	errs := b.store.AddItems(t.Context(), repeated)
	require.NoError(t, errs[0])
	require.NoError(t, errs[1])
	require.True(t, repeated[0].Replayed && repeated[1].Replayed)
	require.ErrorIs(t, errs[2], store.ErrBatchClosed)
	require.Zero(t, b.count(`core.idempotency WHERE key = $1`, repeated[2].Key), "a refused item does not use its key up")
	require.NoError(t, b.decide(batch, "cancel"), "safe to repeat")
	require.Equal(t, 1, b.count(`core.operator_action WHERE action = 'batch_cancel'`))
}

// While two replicas add items as fast as they can, a cancel leaves nothing that lives.
func TestCancelRacesAdds(t *testing.T) {
	t.Parallel()
	one := setup(t)
	two := one.replica()
	one.chain("chain", 2)
	batch := one.open("chain")
	var made atomic.Int64
	begun := make(chan struct{})
	announce := sync.OnceFunc(func() { close(begun) })
	var adders sync.WaitGroup
	for i := range 8 {
		b := []*bench{one, two}[i%2]
		adders.Go(func() {
			for closed := false; !closed; {
				items := b.items(batch, "chain", 10)
				for j := range items {
					items[j].Key = items[j].ID.String()
				}
				for _, err := range b.store.AddItems(t.Context(), items) {
					switch {
					case err == nil:
						made.Add(1)
					case errors.Is(err, store.ErrBatchClosed):
						closed = true
					default:
						t.Errorf("add: %v", err)
						closed = true
					}
				}
				announce()
			}
		})
	}
	<-begun
	require.NoError(t, two.decide(batch, "cancel"))
	one.workAll(50)
	adders.Wait()
	require.False(t, one.workPage(50), "the first look found all that there was")
	counts, _ := one.counted(batch)
	require.Equal(t, map[string]int64{"cancelled": made.Load()}, counts)
	require.Zero(t, one.count(`core.step_live`))
	one.requireExact(batch)
}

// Readers see all items at any moment, and in the end exactly what became of them, while two replicas add, finish and fail
// items and fold the counts.
func TestCountsAreExactOnTwoReplicas(t *testing.T) {
	t.Parallel()
	const n = 60
	one := setup(t)
	two := one.replica()
	one.chain("chain", 2)
	batch := one.open("chain")
	items := one.items(batch, "chain", n)
	require.Equal(t, n, one.add(items))
	stop := make(chan struct{})
	var folders, workers sync.WaitGroup
	for _, b := range []*bench{one, two} {
		folders.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := b.store.Fold(t.Context()); err != nil {
					t.Errorf("fold: %v", err)
				}
				read, err := b.store.ReadBatch(t.Context(), tenant, batch)
				if err != nil {
					t.Errorf("read: %v", err)
					return
				}
				total := int64(0)
				for _, c := range read.Counts {
					total += c.N
				}
				if total != n {
					t.Errorf("%d items instead of %d: %v", total, n, read.Counts)
				}
			}
		})
	}
	for i, item := range items {
		b := []*bench{one, two}[i%2]
		ref := store.Ref{RunID: item.ID, Step: "a", Shard: store.Whole, Generation: 1}
		workers.Go(func() {
			h := held{Ref: ref, fence: b.draw(), worker: b.draw()}
			e, err := b.claim(ref, h.fence, h.worker)
			if err != nil || e.Answer != machine.Granted {
				t.Errorf("claim of item %d: %v, %v", i, e.Answer, err)
				return
			}
			h.claimNo = e.Grant.Row.ClaimNo
			outcome := b.succeed(h, `1`)
			if i%3 == 0 {
				outcome = b.fail(h)
			}
			if err := b.store.Submit(t.Context(), outcome)[0]; err != nil {
				t.Errorf("outcome of item %d: %v", i, err)
			}
		})
	}
	workers.Wait()
	close(stop)
	folders.Wait()
	one.requireExact(batch)
	folded(one)
	require.Zero(t, one.count(`core.batch_delta`))
	require.Zero(t, one.count(`core.tenant_delta`))
	counts, _ := two.counted(batch)
	require.Equal(t, map[string]int64{"failed": n / 3, "running": n - n/3}, counts)
	two.requireExact(batch)
}

// folded folds until nothing is left.
func folded(b *bench) {
	b.t.Helper()
	for range 10 {
		_, err := b.store.Fold(b.t.Context())
		require.NoError(b.t, err)
	}
}

// A replica that dies with a page leaves it to another when its lease has ended; the page is carried out again from its
// beginning, and no run is passed over.
func TestPageOfADeadReplicaIsTakenOver(t *testing.T) {
	t.Parallel()
	one := setup(t)
	two := one.replica()
	one.chain("chain", 1)
	batch := one.open("chain")
	one.add(one.items(batch, "chain", 10))
	require.NoError(t, one.decide(batch, "cancel"))
	require.True(t, one.workPage(3))

	dead, err := one.store.TakeBatchWork(t.Context(), pageLease, 3)
	require.NoError(t, err)
	require.Len(t, dead.Events, 3)
	require.NoError(t, one.store.Submit(t.Context(), dead.Events[0])[0])
	none, err := two.store.TakeBatchWork(t.Context(), pageLease, 3)
	require.NoError(t, err)
	require.Nil(t, none, "the page is another's")

	one.exec(`UPDATE core.batch SET worked_until = now() - interval '1 second'`)
	taken, err := two.store.TakeBatchWork(t.Context(), pageLease, 3)
	require.NoError(t, err)
	require.Equal(t, dead.Events[1].RunID, taken.Events[0].RunID, "the first of the three has ended")
	two.exec(`UPDATE core.batch SET worked_until = now() - interval '1 second'`)
	two.workAll(3)
	counts, _ := two.counted(batch)
	require.Equal(t, map[string]int64{"cancelled": 10}, counts)
	require.Equal(t, 1, two.count(`core.batch WHERE operation = ''`))
	require.WithinDuration(t, time.Now(), *cancelRequested(two, batch), time.Minute)
	two.requireExact(batch)
}

func cancelRequested(b *bench, batch uuid.UUID) (at *time.Time) {
	b.scan(`SELECT cancel_requested_at FROM core.batch WHERE id = $1`, []any{batch}, &at)
	return at
}
