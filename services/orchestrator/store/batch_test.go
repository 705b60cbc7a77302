package store_test

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// pageLease is how long a page of a batch's runs is its taker's in these tests.
const pageLease = time.Minute

// open opens a batch of the pipeline.
func (b *bench) open(pipeline string) uuid.UUID {
	b.t.Helper()
	id := b.ids.V7()
	digest := sha256.Sum256(id[:])
	_, replayed, err := b.store.CreateBatch(b.t.Context(), &store.NewBatch{
		ID: id, Tenant: tenant, Key: id.String(), RequestDigest: digest[:], Pipeline: pipeline, Version: "v1",
		Class: machine.Batch, CallbackURL: "http://localhost/done", Actor: "person:ann",
	})
	require.NoError(b.t, err)
	require.False(b.t, replayed)
	return id
}

// items are the first n items of a batch; each call gives the same ones under ids of their own, as a repeated submit does.
func (b *bench) items(batch uuid.UUID, pipeline string, n int) []*store.NewRun {
	b.t.Helper()
	items := make([]*store.NewRun, n)
	for i := range items {
		name := fmt.Sprint(i)
		digest := sha256.Sum256([]byte(name))
		items[i] = b.newRun(pipeline)
		items[i].Batch, items[i].CustomID, items[i].Class = batch, name, machine.Batch
		items[i].Key, items[i].RequestDigest = batch.String()+"/"+name, digest[:]
	}
	return items
}

// add adds items, all of which must be taken, and returns how many of them were made now.
func (b *bench) add(items []*store.NewRun) (made int) {
	b.t.Helper()
	for i, err := range b.store.AddItems(b.t.Context(), items) {
		require.NoError(b.t, err, "item %d", i)
		if !items[i].Replayed {
			made++
		}
	}
	return made
}

// counted returns the counts of a batch by state, as readers see them, and how many there are in all.
func (b *bench) counted(batch uuid.UUID) (counts map[string]int64, total int64) {
	b.t.Helper()
	read, err := b.store.ReadBatch(b.t.Context(), tenant, batch)
	require.NoError(b.t, err)
	counts, _ = read.ByStatus()
	for status, n := range counts {
		total += n
		if n == 0 {
			delete(counts, status)
		}
	}
	return counts, total
}

// requireExact fails when the counts or the cost of a batch, or the counts of its tenant, are not those of the runs.
func (b *bench) requireExact(batch uuid.UUID) {
	b.t.Helper()
	counts, _ := b.counted(batch)
	rows, err := b.database.Pool.Query(b.t.Context(), `SELECT status, count(*) FROM core.pipeline_run WHERE batch_id = $1 GROUP BY status`, batch)
	require.NoError(b.t, err)
	recount := map[string]int64{}
	for rows.Next() {
		var status string
		var n int64
		require.NoError(b.t, rows.Scan(&status, &n))
		recount[status] = n
	}
	require.NoError(b.t, rows.Err())
	require.Equal(b.t, recount, counts)
	var told, real string
	b.scan(`SELECT (SELECT coalesce(sum(cost_usd), 0) FROM core.pipeline_run WHERE batch_id = $1)::numeric(20,12)::text,
		(SELECT coalesce(sum(c.cost_usd), 0) FROM (SELECT batch_id, cost_usd FROM core.batch_count UNION ALL
			SELECT batch_id, cost_usd FROM core.batch_delta) c WHERE c.batch_id = $1)::numeric(20,12)::text`, []any{batch}, &real, &told)
	require.Equal(b.t, real, told)
	unfinished := b.count(`core.pipeline_run WHERE tenant = $1 AND status IN ('queued', 'running', 'compensating')`, tenant)
	backlog, err := b.store.Backlog(b.t.Context())
	require.NoError(b.t, err)
	sum := 0
	for _, of := range backlog {
		require.Equal(b.t, tenant, of.Tenant)
		sum += int(of.N)
	}
	require.Equal(b.t, unfinished, sum)
}

// decide notes a decision about a batch.
func (b *bench) decide(batch uuid.UUID, operation string) error {
	return b.store.DecideBatch(b.t.Context(), &store.BatchDecision{
		Tenant: tenant, ID: batch, Operation: operation, Actor: "person:ann", Reason: "looked at it",
	})
}

// workPage carries out one page of what was decided about batches, and reports whether there was one.
func (b *bench) workPage(most int) bool {
	b.t.Helper()
	w, err := b.store.TakeBatchWork(b.t.Context(), pageLease, most)
	require.NoError(b.t, err)
	if w == nil {
		return false
	}
	for i, err := range b.store.Submit(b.t.Context(), w.Events...) {
		require.NoError(b.t, err, "event %d", i)
	}
	require.NoError(b.t, b.store.PassBatchWork(b.t.Context(), w))
	return true
}

// workAll carries out all that was decided about batches.
func (b *bench) workAll(most int) {
	b.t.Helper()
	for b.workPage(most) {
		continue
	}
}

// A submit that was cut off and is repeated makes exactly the items that are missing.
func TestRepeatedItemsAreMadeOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chain("chain", 1)
	batch := b.open("chain")
	first := b.items(batch, "chain", 30)[:13]
	require.Equal(t, 13, b.add(first))
	all := b.items(batch, "chain", 30)
	require.Equal(t, 17, b.add(all))
	for i, item := range first {
		require.True(t, all[i].Replayed)
		require.Equal(t, item.ID, all[i].Found)
	}
	require.Zero(t, b.add(b.items(batch, "chain", 30)))
	require.Equal(t, 30, b.count(`core.pipeline_run WHERE batch_id = $1`, batch))
	require.Equal(t, 30, b.scanInt(`SELECT count(DISTINCT custom_id) FROM core.pipeline_run WHERE batch_id = $1`, batch))
	b.requireExact(batch)
}

// An item whose key was used with another body is refused; one whose key has a run outside the batch is that run, and no item.
func TestItemsWithKeysOfOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chain("chain", 1)
	batch := b.open("chain")
	outside := b.newRun("chain")
	require.NoError(t, b.store.CreateRun(t.Context(), outside))
	items := b.items(batch, "chain", 3)
	b.add(items[:1])
	other := *b.items(batch, "chain", 1)[0]
	other.RequestDigest = outside.RequestDigest
	items[1].Key, items[1].RequestDigest = outside.Key, outside.RequestDigest
	errs := b.store.AddItems(t.Context(), []*store.NewRun{&other, items[1], items[2]})
	require.ErrorIs(t, errs[0], store.ErrKeyReused)
	require.NoError(t, errs[1])
	require.True(t, items[1].Replayed)
	require.Equal(t, outside.ID, items[1].Found)
	require.NoError(t, errs[2])
	counts, total := b.counted(batch)
	require.EqualValues(t, 2, total, "%v", counts)
	b.requireExact(batch)
}

// Refused items are noted once, also when the submit is repeated.
func TestRefusedItemsAreNotedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chain("chain", 1)
	batch := b.open("chain")
	refused := []store.Rejected{{Index: 3, CustomID: "c", Reason: "input_invalid", Error: "input.text: must be a string"}}
	for range 2 {
		require.NoError(t, b.store.RejectItems(t.Context(), batch, refused))
	}
	read, err := b.store.ReadBatch(t.Context(), tenant, batch)
	require.NoError(t, err)
	require.EqualValues(t, 1, read.Rejected)
	require.Empty(t, read.Counts)
}

// Items that come into a paused batch do not begin; they do when it is resumed.
func TestItemsOfAPausedBatchAreHeld(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chain("chain", 1)
	batch := b.open("chain")
	require.NoError(t, b.decide(batch, "pause"))
	b.workAll(2)
	b.add(b.items(batch, "chain", 5))
	require.Empty(t, b.taken(), "nothing is announced")
	require.Empty(t, b.readyRefs(machine.Batch), "the dispatcher passes them over")
	require.Equal(t, 5, b.count(`core.step_live WHERE status = 'ready'`))
	require.NoError(t, b.decide(batch, "resume"))
	b.workAll(2)
	require.Len(t, b.readyRefs(machine.Batch), 5)
	b.requireExact(batch)
}

// A batch has ended when all items are there and have ended, and its client is told once; a retry opens it again.
func TestBatchEndsOnceForEachTimeItWasOpen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.register(spec{Name: "one", Steps: []stepSpec{{Name: "a"}}})
	batch := b.open("one")
	items := b.items(batch, "one", 2)
	b.add(items)
	ended := func() (n int) {
		b.t.Helper()
		_, err := b.store.Fold(t.Context())
		require.NoError(t, err)
		require.NoError(t, b.store.EndBatches(t.Context()))
		return b.count(`core.batch WHERE id = $1 AND finished_at IS NOT NULL`, batch)
	}
	b.submit(b.succeed(b.grant(b.next(items[0].ID)), `1`))
	b.submit(b.fail(b.grant(b.next(items[1].ID))))
	require.Zero(t, ended(), "it is not sealed: more may come")
	require.NoError(t, b.store.SealBatch(t.Context(), tenant, batch))
	require.Equal(t, 1, ended())
	require.Equal(t, 1, ended())
	owed := `core.callback_owed WHERE subject_id = $1 AND subject = 'batch' AND event = 'batch.completed'`
	require.Equal(t, 1, b.count(owed, batch))
	require.Zero(t, b.count(`core.callback_owed WHERE subject = 'run'`), "items are not told one by one")

	require.NoError(t, b.decide(batch, "retry_failed"))
	b.workAll(10)
	require.Zero(t, ended(), "an item goes on")
	b.submit(b.succeed(b.grant(b.next(items[1].ID)), `2`))
	require.Equal(t, 1, ended())
	require.Equal(t, 2, b.count(owed, batch))
	counts, _ := b.counted(batch)
	require.Equal(t, map[string]int64{"done": 2}, counts)
	b.requireExact(batch)
}
