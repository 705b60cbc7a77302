package orchestrator_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/testkit"
)

// openBatch opens a batch of the pipeline "chain".
func (r *replica) openBatch(change func(*systemv1.CreateBatchRequest)) *pawlv1.Batch {
	r.t.Helper()
	key := r.ids.V4().String()
	digest := sha256.Sum256([]byte(key))
	request := &systemv1.CreateBatchRequest{
		Tenant: tenant, Idempotency: &systemv1.Idempotency{Key: key, RequestDigest: digest[:]}, Pipeline: "chain:v1", Label: "letters",
		Class: pawlv1.RunClass_RUN_CLASS_INTERACTIVE, Labels: map[string]string{"a": "b"}, Actor: "key:test",
	}
	if change != nil {
		change(request)
	}
	made, err := r.client.CreateBatch(r.t.Context(), request)
	require.NoError(r.t, err)
	return made.GetBatch()
}

// batchItems are items from one place of a batch to another.
func batchItems(batch string, from, to int) *systemv1.AddBatchItemsRequest {
	request := &systemv1.AddBatchItemsRequest{Tenant: tenant, BatchId: batch}
	for i := from; i < to; i++ {
		digest := sha256.Sum256(fmt.Append(nil, i))
		request.Items = append(request.Items, &systemv1.AddBatchItemsRequest_Item{
			Index: int32(i), CustomId: fmt.Sprintf("item-%d", i), Input: []byte(`{"text":"a"}`), EntityId: "e",
			Idempotency: &systemv1.Idempotency{Key: fmt.Sprintf("%s/%d", batch, i), RequestDigest: digest[:]},
		})
	}
	return request
}

func (r *replica) addItems(batch string, from, to int) []*pawlv1.BatchItemResult {
	r.t.Helper()
	added, err := r.client.AddBatchItems(r.t.Context(), batchItems(batch, from, to))
	require.NoError(r.t, err)
	return added.GetResults()
}

func (r *replica) seal(batch string) {
	r.t.Helper()
	_, err := r.client.SealBatch(r.t.Context(), &systemv1.SealBatchRequest{Tenant: tenant, BatchId: batch})
	require.NoError(r.t, err)
}

func (r *replica) batch(id string) *pawlv1.Batch {
	r.t.Helper()
	got, err := r.client.GetBatch(r.t.Context(), &systemv1.GetBatchRequest{Tenant: tenant, BatchId: id})
	require.NoError(r.t, err)
	return got.GetBatch()
}

func (r *replica) decide(batch string, verb systemv1.BatchVerb) (*pawlv1.Batch, error) {
	r.t.Helper()
	answer, err := r.client.DecideBatch(r.t.Context(), &systemv1.DecideBatchRequest{
		Tenant: tenant, BatchId: batch, Verb: verb, Actor: "key:ann", Reason: "test",
	})
	return answer.GetBatch(), err
}

// awaitBatch waits until the batch is as wanted.
func (r *replica) awaitBatch(id string, wanted func(*pawlv1.Batch) bool) (b *pawlv1.Batch) {
	r.t.Helper()
	testkit.Eventually(r.t, patience, func() error {
		if b = r.batch(id); !wanted(b) {
			return fmt.Errorf("the batch is %v", b)
		}
		return nil
	})
	return b
}

// recounted checks that the counts are those of the runs.
func (r *replica) recounted() {
	r.t.Helper()
	require.Zero(r.t, r.count(`(
		SELECT batch_id, status, sum(n) AS n, sum(cost_usd) AS cost FROM (
			SELECT batch_id, status, n, cost_usd FROM core.batch_count UNION ALL SELECT batch_id, status, n, cost_usd FROM core.batch_delta) c
		GROUP BY 1, 2 HAVING sum(n) <> 0) counted
		FULL JOIN (SELECT batch_id, status, count(*) AS n FROM core.pipeline_run WHERE batch_id IS NOT NULL GROUP BY 1, 2) real
		USING (batch_id, status) WHERE counted.n IS DISTINCT FROM real.n`))
	require.Zero(r.t, r.count(`(
		SELECT tenant, class, sum(n) AS n FROM (
			SELECT tenant, class, n FROM core.tenant_count UNION ALL SELECT tenant, class, n FROM core.tenant_delta) c
		GROUP BY 1, 2 HAVING sum(n) <> 0) counted
		FULL JOIN (SELECT tenant, class, count(*) AS n FROM core.pipeline_run WHERE status IN ('queued', 'running', 'compensating') GROUP BY 1, 2) real
		USING (tenant, class) WHERE counted.n IS DISTINCT FROM real.n`))
}

func TestABatchFromItsOpeningToItsEnd(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	b := r.openBatch(func(c *systemv1.CreateBatchRequest) {
		c.CallbackUrl, c.BudgetPicoUsd = "https://example.com/done", proto.Int64(5e12)
	})
	require.Equal(t, pawlv1.BatchStatus_BATCH_STATUS_FILLING, b.GetStatus())
	results := r.addItems(b.GetBatchId(), 0, 3)
	_, err := r.client.AddBatchItems(t.Context(), &systemv1.AddBatchItemsRequest{
		Tenant: tenant, BatchId: b.GetBatchId(),
		Items: []*systemv1.AddBatchItemsRequest_Item{{Index: 3, CustomId: "bad", RejectedReason: "input_invalid", RejectedError: "input.text is missing"}},
	})
	require.NoError(t, err)
	r.seal(b.GetBatchId())
	run := r.run(uuid.MustParse(results[1].GetRunId()))
	require.Equal(t, []string{b.GetBatchId(), "item-1", "e"}, []string{run.GetBatchId(), run.GetCustomId(), run.GetEntityId()})
	require.Equal(t, map[string]string{"a": "b"}, run.GetLabels())
	n := r.newRunner()
	for range 9 {
		w := n.take()
		require.Equal(t, b.GetBatchId(), uuid.UUID(w.GetBatchId()).String())
		require.Equal(t, int64(5e12), w.GetBatchBudgetPicoUsd())
		n.stored(w.succeeded(`"x"`))
	}
	done := r.awaitBatch(b.GetBatchId(), func(b *pawlv1.Batch) bool { return b.GetStatus() == pawlv1.BatchStatus_BATCH_STATUS_COMPLETED })
	require.Equal(t, int32(3), done.GetCounts().GetDone())
	require.Equal(t, int32(3), done.GetCounts().GetTotal())
	require.Equal(t, int32(1), done.GetCounts().GetRejected())
	require.InDelta(t, 1, done.GetDoneShare(), 0)
	r.eventually(1, `core.callback_owed WHERE subject = 'batch' AND event = 'batch.completed'`)
	r.recounted()

	page, err := r.client.ListBatchResults(t.Context(), &systemv1.ListBatchResultsRequest{Tenant: tenant, BatchId: b.GetBatchId(), PageSize: 3})
	require.NoError(t, err)
	require.Len(t, page.GetResults(), 3)
	require.Equal(t, "input_invalid", page.GetResults()[0].GetReason())
	require.Equal(t, `"x"`, page.GetResults()[1].GetResult().GetJson())
	rest, err := r.client.ListBatchResults(t.Context(), &systemv1.ListBatchResultsRequest{
		Tenant: tenant, BatchId: b.GetBatchId(), PageSize: 3, PageToken: page.GetNextPageToken(),
	})
	require.NoError(t, err)
	require.Len(t, rest.GetResults(), 1)
	require.True(t, rest.GetAtEnd())
	require.True(t, rest.GetBatchEnded())
	_, err = r.client.GetBatch(t.Context(), &systemv1.GetBatchRequest{Tenant: "rival", BatchId: b.GetBatchId()})
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_BATCH_NOT_FOUND), "%v", err)
}

// TestI05_ABatchThatIsSubmittedAgainMakesWhatIsMissing: from many callers at once, over two replicas.
func TestI05_ABatchThatIsSubmittedAgainMakesWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := newStores(t)
	r, other := s.replica(t), s.replica(t)
	r.register(chain)
	id := r.openBatch(nil).GetBatchId()
	r.addItems(id, 0, 50)
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			replica := []*replica{r, other}[i%2]
			if _, err := replica.client.AddBatchItems(t.Context(), batchItems(id, 0, 100)); err != nil {
				t.Errorf("not added: %v", err)
			}
		})
	}
	all.Wait()
	r.seal(id)
	require.Equal(t, 100, r.count(`core.pipeline_run WHERE batch_id = $1`, uuid.MustParse(id)))
	for _, result := range r.addItems(id, 0, 100) {
		require.True(t, result.GetDuplicate(), "a sealed batch still says what it has")
	}
	_, err := r.client.AddBatchItems(t.Context(), batchItems(id, 100, 101))
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_WRONG_STATE), "%v", err)
	r.recounted()
}

// TestI12_NoItemIsMadeBehindACancel: items and a cancel race; whoever comes second sees the first.
func TestI12_NoItemIsMadeBehindACancel(t *testing.T) {
	t.Parallel()
	s := newStores(t)
	r, other := s.replica(t), s.replica(t)
	r.register(chain)
	for range 5 {
		id := r.openBatch(nil).GetBatchId()
		var adding sync.WaitGroup
		for part := range 8 {
			adding.Go(func() {
				replica := []*replica{r, other}[part%2]
				_, err := replica.client.AddBatchItems(t.Context(), batchItems(id, 50*part, 50*part+50))
				if err != nil && !fault.Is(err, faultv1.ErrorReason_ERROR_REASON_WRONG_STATE) {
					t.Errorf("neither added nor refused: %v", err)
				}
			})
		}
		_, err := other.decide(id, systemv1.BatchVerb_BATCH_VERB_CANCEL)
		require.NoError(t, err)
		adding.Wait()
		b := r.awaitBatch(id, func(b *pawlv1.Batch) bool { return b.GetStatus() == pawlv1.BatchStatus_BATCH_STATUS_CANCELLED })
		require.Equal(t, b.GetCounts().GetTotal(), b.GetCounts().GetCancelled())
		require.Zero(t, r.count(`core.step_live l JOIN core.pipeline_run p ON p.id = l.run_id WHERE p.batch_id = $1`, uuid.MustParse(id)))
	}
	r.recounted()
}

func TestAPausedBatchDispatchesNothing(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	n := r.newRunner() // whose slots make the window wide enough for all
	id := r.openBatch(nil).GetBatchId()
	paused, err := r.decide(id, systemv1.BatchVerb_BATCH_VERB_PAUSE)
	require.NoError(t, err)
	require.Equal(t, pawlv1.BatchStatus_BATCH_STATUS_PAUSED, paused.GetStatus())
	r.addItems(id, 0, 20)
	r.seal(id)
	require.Zero(t, r.count(`core.step_live WHERE status <> 'ready' OR NOT paused`), "an item of a paused batch is held from the beginning")
	_, err = r.decide(id, systemv1.BatchVerb_BATCH_VERB_RESUME)
	require.NoError(t, err)
	r.eventually(0, `core.step_live WHERE status = 'ready'`)
	_, err = r.decide(id, systemv1.BatchVerb_BATCH_VERB_PAUSE)
	require.NoError(t, err)
	for range 20 { // those that were dispatched before go on; what follows them is held
		n.stored(n.take().succeeded(`"x"`))
	}
	r.eventually(20, `core.step_live WHERE status = 'ready' AND paused`)
}

func TestFailedItemsAreRetried(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	id := r.openBatch(nil).GetBatchId()
	r.addItems(id, 0, 4)
	r.seal(id)
	n := r.newRunner()
	for i := range 4 {
		reason := []string{"provider_400", "provider_403"}[i/3]
		n.stored(n.take().failed(systemv1.Outcome_FAILURE_CLASS_PERMANENT, reason))
	}
	b := r.awaitBatch(id, func(b *pawlv1.Batch) bool { return b.GetStatus() == pawlv1.BatchStatus_BATCH_STATUS_COMPLETED })
	require.Len(t, b.GetFailures(), 2)
	require.Equal(t, int32(3), b.GetFailures()[0].GetCount())
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_FAILED, r.run(uuid.MustParse(b.GetFailures()[0].GetExampleRunId())).GetStatus())
	_, err := r.client.DecideBatch(t.Context(), &systemv1.DecideBatchRequest{
		Tenant: tenant, BatchId: id, Verb: systemv1.BatchVerb_BATCH_VERB_RETRY_FAILED, Actor: "key:ann", Reason: "again", OnlyReason: b.GetFailures()[0].GetReason(),
	})
	require.NoError(t, err)
	for range 9 {
		n.stored(n.take().succeeded(`"x"`))
	}
	b = r.awaitBatch(id, func(b *pawlv1.Batch) bool { return b.GetCounts().GetDone() == 3 && b.GetFinishedAt() != nil })
	require.Equal(t, int32(1), b.GetCounts().GetFailed())
	require.Equal(t, 1, r.count(`core.operator_action WHERE action = 'batch_retry_failed'`))
	r.recounted()
}

// TestAnOperationGoesOnWithAnotherReplica: the one that carried it out is gone in the middle.
func TestAnOperationGoesOnWithAnotherReplica(t *testing.T) {
	t.Parallel()
	s := newStores(t)
	r := s.replica(t)
	r.register(chain)
	id := r.openBatch(nil).GetBatchId()
	r.addItems(id, 0, 300)
	r.seal(id)
	r.exec(`UPDATE core.batch SET operation = 'cancel', operation_no = 1, cancel_requested_at = now(), operation_at = now(),
		operation_actor = 'key:ann', worked_until = now() + interval '1 second'`) // taken by one that died
	r.awaitBatch(id, func(b *pawlv1.Batch) bool { return b.GetStatus() == pawlv1.BatchStatus_BATCH_STATUS_CANCELLED })
	r.eventually(0, `core.step_live`)
	r.recounted()
}

func TestTheTimeOfABatchIsThatOfItsItems(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	b := r.openBatch(func(c *systemv1.CreateBatchRequest) { c.Deadline = durationpb.New(time.Hour) })
	run := r.run(uuid.MustParse(r.addItems(b.GetBatchId(), 0, 1)[0].GetRunId()))
	require.WithinDuration(t, b.GetDeadlineAt().AsTime(), run.GetDeadlineAt().AsTime(), time.Millisecond)
}

func TestTheBacklogIsCounted(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	id := r.openBatch(func(c *systemv1.CreateBatchRequest) { c.Class = pawlv1.RunClass_RUN_CLASS_BATCH }).GetBatchId()
	r.addItems(id, 0, 7)
	r.create("chain", `{"text":"a"}`)
	backlog := func() map[string]int64 {
		answer, err := r.client.GetBacklog(t.Context(), &systemv1.GetBacklogRequest{})
		require.NoError(t, err)
		found := map[string]int64{}
		for _, b := range answer.GetBacklog() {
			found[b.GetTenant()+" "+b.GetClass().String()] = b.GetUnfinished()
		}
		return found
	}
	require.Equal(t, map[string]int64{tenant + " RUN_CLASS_BATCH": 7, tenant + " RUN_CLASS_INTERACTIVE": 1}, backlog())
	_, err := r.decide(id, systemv1.BatchVerb_BATCH_VERB_CANCEL)
	require.NoError(t, err)
	testkit.Eventually(t, patience, func() error {
		if len(backlog()) != 1 {
			return errors.New("cancelled runs are counted")
		}
		return nil
	})
}
