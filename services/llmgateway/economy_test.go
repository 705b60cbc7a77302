package llmgateway_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/llmgateway"
	"pawl.internal/services/llmgateway/provider/simulated"
	"pawl.internal/services/testkit"
)

// economy makes the default route one whose batches' questions may go through the provider's batch API, at half the price.
func (b *bench) economy() *bench {
	b.change = func(s string) string {
		s = strings.Replace(s, "default: [{provider: main, model: small}]",
			"default: {economy: batch_api, targets: [{provider: main, model: small}]}", 1)
		return strings.Replace(s, `cached_input: "0.05", output: "2.00"}`, `cached_input: "0.05", output: "2.00", batch_factor: "0.5"}`, 1)
	}
	return b
}

// hours is a question that has time.
func (b *bench) hours(run uuid.UUID, text string) *systemv1.GenerateRequest {
	q := b.question(run, text)
	q.Class, q.DeadlineIn = pawlv1.RunClass_RUN_CLASS_BATCH, durationpb.New(time.Hour)
	return q
}

// quick lets the provider's batches end at once.
func (u *upstream) quick() { u.SetBatchPace(simulated.BatchPace{}) }

// held keeps the provider's batches where they are, and returns what lets them go.
func (u *upstream) held() (letGo func()) {
	u.SetBatchPace(simulated.BatchPace{Item: simulated.Span(time.Hour)})
	return u.quick
}

// awaitBatches waits until the provider has so many batches, and returns them.
func (u *upstream) awaitBatches(t *testing.T, n int) []simulated.BatchStatus {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if got := len(u.Batches()); got != n {
			return fmt.Errorf("there are %d batches, not %d", got, n)
		}
		return nil
	})
	return u.Batches()
}

func (o *orchestrator) wakings(run uuid.UUID) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.woken[run]
}

func awaitWoken(t *testing.T, b *bench, run uuid.UUID) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if b.orders.wakings(run) == 0 {
			return errors.New("the step is not told")
		}
		return nil
	})
}

func TestABatchIsAnsweredAtItsDiscount(t *testing.T) {
	b := newBench(t).economy()
	letGo := b.main.held()
	g := b.gateway(nil)
	runs := []uuid.UUID{b.ids.V7(), b.ids.V7(), b.ids.V7()}
	for i, run := range runs {
		parked := g.failure(t, b.hours(run, fmt.Sprintf("question %d", i)))
		require.True(t, parked.GetPark(), parked)
		require.Equal(t, "provider_batch", parked.GetReason())
		require.Positive(t, parked.GetRetryAfter().AsDuration())
		require.Zero(t, parked.GetCalls())
	}
	// Who asks again while the batch is away waits on.
	require.True(t, g.failure(t, b.hours(runs[0], "question 0")).GetPark())
	eventually(b, 3, `SELECT count(*) FROM llm.economy_item WHERE state = 'sent'`)
	letGo()
	for i, run := range runs {
		awaitWoken(t, b, run)
		answer := g.answer(t, b.hours(run, fmt.Sprintf("question %d", i)))
		require.True(t, answer.GetReplayed())
		require.NotEmpty(t, answer.GetText())
		full := answer.GetInputTokens()*500_000 + answer.GetOutputTokens()*2_000_000
		require.Equal(t, full/2, answer.GetCostPicoUsd())
	}
	require.Zero(t, b.main.received(), "nothing is asked in the usual way")
	b.balanced()
	require.Equal(t, 3, one[int](b, `SELECT count(*) FROM llm.llm_try WHERE state = 'answered' AND tier = 'batch'`))
	eventually(b, 0, `SELECT count(*) FROM llm.economy_job`)
	eventually(b, 0, `SELECT count(*) FROM llm.economy_item WHERE body <> ''`)
}

func TestOnlyBatchesWithTimeGoThroughTheLane(t *testing.T) {
	b := newBench(t).economy()
	g := b.gateway(nil)
	interactive := b.hours(b.ids.V7(), "now")
	interactive.Class = pawlv1.RunClass_RUN_CLASS_INTERACTIVE
	g.answer(t, interactive)
	urgent := b.hours(b.ids.V7(), "soon")
	urgent.DeadlineIn = durationpb.New(1400 * time.Millisecond)
	g.answer(t, urgent)
	other := b.hours(b.ids.V7(), "elsewhere")
	other.Route = "wide"
	g.answer(t, other)
	require.Empty(t, b.main.Batches())
	require.Equal(t, 3, b.main.received())
}

func TestWhatABatchDoesNotAnswerGoesTheUsualWay(t *testing.T) {
	b := newBench(t).economy()
	b.main.held()
	g := b.gateway(func(c *llmgateway.Config) { c.EconomyGather = time.Second })
	answered, unanswered := b.ids.V7(), b.ids.V7()
	g.failure(t, b.hours(answered, "first"))
	g.failure(t, b.hours(unanswered, "second"))
	eventually(b, 1, `SELECT count(*) FROM llm.economy_job WHERE state = 'sent' AND items = 2`)
	require.NoError(t, b.main.ExpireBatch(b.main.Batches()[0].ID, 1))
	awaitWoken(t, b, answered)
	awaitWoken(t, b, unanswered)
	first, second := g.answer(t, b.hours(answered, "first")), g.answer(t, b.hours(unanswered, "second"))
	require.Equal(t, 1, b.main.received(), "one of the two was answered by the batch")
	require.NotEqual(t, first.GetReplayed(), second.GetReplayed())
	b.balanced()
}

func TestADeadlineTakesAQuestionOutOfTheLane(t *testing.T) {
	b := newBench(t).economy()
	b.main.held()
	g := b.gateway(nil)
	run := b.ids.V7()
	q := b.hours(run, "in time")
	q.DeadlineIn = durationpb.New(4 * time.Second) // of which the last half second is kept
	require.True(t, g.failure(t, q).GetPark())
	b.main.awaitBatches(t, 1)
	awaitWoken(t, b, run)
	q.DeadlineIn = durationpb.New(patience)
	require.False(t, g.answer(t, q).GetReplayed())
	require.Equal(t, 1, b.main.received())
	require.Equal(t, "cancelled", b.main.Batches()[0].Stage)
	b.balanced()
}

func TestACancelledRunLeavesTheLane(t *testing.T) {
	b := newBench(t).economy()
	b.main.held()
	g := b.gateway(nil)
	run := b.ids.V7()
	g.failure(t, b.hours(run, "never mind"))
	b.main.awaitBatches(t, 1)
	_, err := g.SetSpendGate(t.Context(), &systemv1.SetSpendGateRequest{Gates: []*systemv1.SetSpendGateRequest_Gate{
		{RunId: run[:], Tenant: "acme", Epoch: 0, Open: false},
	}})
	require.NoError(t, err)
	eventually(b, 0, `SELECT count(*) FROM llm.economy_item WHERE state IN ('waiting', 'sent')`)
	require.Equal(t, "cancelled", b.main.Batches()[0].Stage)
	eventually(b, 0, `SELECT count(*) FROM llm.llm_try WHERE state = 'in_flight'`)
	b.balanced()
}

// TestABatchWhoseMakerDiedIsNotMadeTwice: the batch stands at the provider, and nobody here has noted it.
func TestABatchWhoseMakerDiedIsNotMadeTwice(t *testing.T) {
	b := newBench(t).economy()
	b.main.held()
	g := b.gateway(nil)
	run := b.ids.V7()
	g.failure(t, b.hours(run, "once"))
	b.main.awaitBatches(t, 1)
	eventually(b, 1, `SELECT count(*) FROM llm.economy_job WHERE state = 'sent'`)
	g.kill()
	_, err := b.database.Pool.Exec(t.Context(), `
		UPDATE llm.economy_job SET state = 'preparing', provider_job = '', created_at = created_at - interval '1 minute'`)
	require.NoError(t, err)
	other := b.gateway(nil)
	eventually(b, 1, `SELECT count(*) FROM llm.economy_job WHERE state = 'sent'`)
	b.main.quick()
	awaitWoken(t, b, run)
	require.True(t, other.answer(t, b.hours(run, "once")).GetReplayed())
	require.Len(t, b.main.Batches(), 1)
	require.Zero(t, b.main.received())
}

func TestTwoReplicasMakeOneBatchOfAQuestion(t *testing.T) {
	b := newBench(t).economy()
	g, other := b.gateway(nil), b.gateway(nil)
	b.main.held()
	var runs []uuid.UUID
	for i := range 20 {
		run := b.ids.V7()
		runs = append(runs, run)
		text := fmt.Sprintf("question %d", i)
		require.True(t, g.failure(t, b.hours(run, text)).GetPark())
		require.True(t, other.failure(t, b.hours(run, text)).GetPark())
	}
	eventually(b, 20, `SELECT count(*) FROM llm.economy_item WHERE state = 'sent'`)
	b.main.quick()
	for i, run := range runs {
		awaitWoken(t, b, run)
		require.True(t, other.answer(t, b.hours(run, fmt.Sprintf("question %d", i))).GetReplayed())
	}
	items := 0
	for _, batch := range b.main.Batches() {
		items += len(batch.CustomIDs)
	}
	require.Equal(t, 20, items)
	require.Equal(t, 20, one[int](b, `SELECT count(*) FROM llm.llm_try`))
}
