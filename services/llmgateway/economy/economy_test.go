package economy_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/llmgateway/economy"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/store"
	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const soon = 20 * time.Second

// batchAPI is a provider whose batches stay until finish, and whose makings fail as told.
type batchAPI struct {
	economy.API

	mu sync.Mutex
	// errs are how the next makings fail; a lost one is made all the same.
	errs  []error           // guarded by mu
	made  [][]string        // guarded by mu; the custom ids of each batch
	names map[string]string // guarded by mu; ours to the provider's
	ended map[string]bool   // guarded by mu
	lost  bool              // guarded by mu; the provider forgets its batches
}

var errLost = errors.New("the answer was lost")

func (a *batchAPI) Size() (items int, size int64) { return 100, 1 << 20 }

func (a *batchAPI) Submit(_ context.Context, b provider.Batch) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var err error
	if len(a.errs) > 0 {
		err, a.errs = a.errs[0], a.errs[1:]
	}
	if err != nil && !errors.Is(err, errLost) {
		return "", err
	}
	var ids []string
	for _, item := range b.Items {
		ids = append(ids, item.CustomID)
	}
	a.made = append(a.made, ids)
	name := fmt.Sprintf("batch-%d", len(a.made))
	a.names[b.ID.String()] = name
	return name, err
}

func (a *batchAPI) FindBatch(_ context.Context, b provider.Batch, _ []string) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if name, ok := a.names[b.ID.String()]; ok {
		return name, nil
	}
	return "", provider.ErrNoBatch
}

func (a *batchAPI) LookAtBatch(_ context.Context, id string) (provider.BatchStatus, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lost {
		return provider.BatchStatus{}, provider.ErrNoBatch
	}
	return provider.BatchStatus{Ended: a.ended[id], Results: []string{id}}, nil
}

func (a *batchAPI) BatchResults(_ context.Context, status provider.BatchStatus, heard func(provider.BatchResult) error) error {
	a.mu.Lock()
	ids := append([]string{"a stranger's"}, a.made[len(a.made)-1]...)
	a.mu.Unlock()
	for _, id := range ids {
		x := provider.Exchange{Status: http.StatusOK, Body: []byte(`{}`), Sent: true}
		if err := heard(provider.BatchResult{CustomID: id, Exchange: x}); err != nil {
			return err
		}
	}
	return nil
}

func (a *batchAPI) CancelBatch(context.Context, string) error { return nil }

// finish ends all batches.
func (a *batchAPI) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range a.names {
		a.ended[name] = true
	}
}

func (a *batchAPI) makings() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.made)
}

// bench is a lane on a database of its own.
type bench struct {
	t     *testing.T
	pool  *pgxpool.Pool
	store *store.Store
	ids   *ids.Source
	api   *batchAPI

	mu    sync.Mutex
	woken map[string]int // guarded by mu; by step
}

func newBench(t *testing.T, errs ...error) *bench {
	t.Helper()
	pool, err := pg.Open(t.Context(), pg.Config{
		URL: config.NewSecret(testkit.Postgres(t, store.Schema()).URL), MaxConns: 8, StatementTimeout: 30 * time.Second, ConnectTimeout: 5 * time.Second,
	}, "test")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	b := &bench{
		t: t, pool: pool, store: store.New(pool, pool, 1), ids: ids.New(clock.System()), woken: map[string]int{},
		api: &batchAPI{errs: errs, names: map[string]string{}, ended: map[string]bool{}},
	}
	holder := b.ids.V4()
	_, err = b.store.RenewLease(t.Context(), holder, "a gateway that lives", time.Hour)
	require.NoError(t, err)
	lane := economy.New(economy.Deps{
		Store: b.store, Clock: clock.System(), IDs: b.ids, Log: slog.New(slog.DiscardHandler), Holder: holder,
		API: func(string) (economy.API, bool) { return b.api, true },
		Settle: func(ctx context.Context, item store.ItemRef, _ store.Job, x provider.Exchange) error {
			return b.store.Submit(ctx, &store.Settle{
				Key: item.Key, TryNo: item.TryNo, OnlyInFlight: true, Outcome: store.Outcome{State: store.TryAnswered, HTTPStatus: x.Status, Body: x.Body},
			})
		},
		Wake: b.wake, Counted: func([]store.LaneCount) {},
	}, economy.Config{Gather: 50 * time.Millisecond, LookEvery: 50 * time.Millisecond, AdoptAfter: 200 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = b.store.Run(ctx) })
	running.Go(func() { _ = lane.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return b
}

func (b *bench) wake(_ context.Context, steps []*systemv1.StepRef) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range steps {
		b.woken[s.GetStep()]++
	}
	return nil
}

// enter puts a question of a step into the lane.
func (b *bench) enter(step string) {
	b.t.Helper()
	run := b.ids.V7()
	e := &store.Begin{
		Key:      store.Key{RunID: run, Digest: [32]byte{1}},
		Question: store.Question{Tenant: "acme", Step: step, Shard: -1, Class: "batch", Request: []byte(`{}`)},
		Sending:  store.Sending{Provider: "main", Model: "small", Format: "openai", Holder: store.LaneHolder},
		Item:     &store.Item{CustomID: run.String(), Body: []byte(`{}`), LiveIn: time.Hour},
	}
	require.NoError(b.t, b.store.Submit(b.t.Context(), e))
	require.Equal(b.t, store.Admitted, e.Verdict)
}

// awaitSettled waits until the step was told, and its request is as wanted.
func (b *bench) awaitSettled(step string, state store.TryState) {
	b.t.Helper()
	testkit.Eventually(b.t, soon, func() error {
		b.mu.Lock()
		told := b.woken[step]
		b.mu.Unlock()
		var got string
		err := b.pool.QueryRow(b.t.Context(), `
			SELECT y.state FROM llm.llm_call_log c JOIN llm.llm_try y USING (run_id, call_key) WHERE c.step = $1`, step).Scan(&got)
		if err != nil || told == 0 || got != string(state) {
			return fmt.Errorf("told %d times, %s: %w", told, got, err)
		}
		return nil
	})
}

// awaitSent waits until a batch is at the provider, and known to be.
func (b *bench) awaitSent() {
	b.t.Helper()
	testkit.Eventually(b.t, soon, func() error {
		var n int
		err := b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM llm.economy_job WHERE state = 'sent'`).Scan(&n)
		if err != nil || n != 1 {
			return fmt.Errorf("%d jobs are sent: %w", n, err)
		}
		return nil
	})
}

// TestABatchThatCouldNotBeMadeIsMadeLater: by the same gateway, which goes on living.
func TestABatchThatCouldNotBeMadeIsMadeLater(t *testing.T) {
	t.Parallel()
	b := newBench(t, &provider.BatchError{What: "make a batch", Status: http.StatusServiceUnavailable}, errors.New("connection refused"))
	b.enter("later")
	b.awaitSent()
	b.api.finish()
	b.awaitSettled("later", store.TryAnswered)
	require.Equal(t, 1, b.api.makings())
}

func TestABatchWhoseMakingWasNotHeardOfIsNotMadeTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t, errLost)
	b.enter("once")
	b.awaitSent()
	b.api.finish()
	b.awaitSettled("once", store.TryAnswered)
	require.Equal(t, 1, b.api.makings())
}

func TestARefusedBatchGoesTheUsualWay(t *testing.T) {
	t.Parallel()
	b := newBench(t, &provider.BatchError{What: "make a batch", Status: http.StatusBadRequest})
	b.enter("refused")
	b.awaitSettled("refused", store.TryNotSent)
	require.Zero(t, b.api.makings())
}

func TestABatchThatItsProviderHasLostGoesTheUsualWay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.api.mu.Lock()
	b.api.lost = true
	b.api.mu.Unlock()
	b.enter("lost")
	b.awaitSettled("lost", store.TryNotSent)
	require.Equal(t, 1, b.api.makings())
}
