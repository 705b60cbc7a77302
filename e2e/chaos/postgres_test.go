package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/testkit"
)

const (
	// manyRestarts is how often PostgreSQL restarts in a row.
	manyRestarts = 20
	// servesAgain bounds the time from the end of a fault of PostgreSQL until submits are accepted again.
	servesAgain = 10 * time.Second
)

// TestI04_NothingIsLostWithPostgreSQL takes PostgreSQL away in every way in which it can be. What was accepted ends, and the
// services find it again by themselves.
func TestI04_NothingIsLostWithPostgreSQL(t *testing.T) {
	f := start(t, harness.FleetConfig{Postgres: testkit.PrivatePostgres(t, "max_connections=150")})
	for _, c := range []struct {
		name  string
		short bool
		fault fault
	}{
		{"restarted", false, fault{name: "PostgreSQL restarts, three times", strike: restarts}},
		{"crashed", true, fault{name: "kill -9 of PostgreSQL, three times", strike: crashes}},
		{"read-only", false, fault{name: "PostgreSQL is read-only for three leases", strike: readOnly}},
		{"without connections", false, fault{name: "others hold all connections of PostgreSQL for three leases", strike: exhausted}},
		{"hanging", false, fault{name: "PostgreSQL hangs (SIGSTOP) for three leases", strike: hanging}},
		{"restarted while runs are recovered", false, fault{
			name: "PostgreSQL restarts 20 times while all services start with unfinished runs", doubts: true, strike: restartsInRecovery,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !c.short {
				full(t)
			}
			endure(t, f.For(t), c.fault)
		})
	}
}

// restarts ends PostgreSQL in order, among open transactions.
func restarts(t *testing.T, f *harness.Fleet) {
	for range 3 {
		awaitCalls(t, f)
		f.Postgres.Stop()
		require.NoError(t, f.Postgres.Start(t.Context()))
	}
	requireServes(t, f)
}

// crashes lets PostgreSQL recover, and lose what was committed asynchronously: the claims.
func crashes(t *testing.T, f *harness.Fleet) {
	for range 3 {
		awaitCalls(t, f)
		require.NoError(t, f.Postgres.Crash(t.Context()))
		require.NoError(t, f.Postgres.Start(t.Context()))
	}
	requireServes(t, f)
}

func readOnly(t *testing.T, f *harness.Fleet) {
	awaitCalls(t, f)
	require.NoError(t, f.Postgres.SetReadOnly(t.Context(), true))
	heal := sync.OnceFunc(func() { require.NoError(t, f.Postgres.SetReadOnly(t.Context(), false)) })
	defer heal()
	refused(t, f)
	last(t, 3*lease)
	heal()
	requireServes(t, f)
}

func exhausted(t *testing.T, f *harness.Fleet) {
	awaitCalls(t, f)
	release, err := f.Postgres.Exhaust(t.Context())
	require.NoError(t, err)
	defer release()
	refused(t, f)
	last(t, 3*lease)
	release()
	requireServes(t, f)
}

func hanging(t *testing.T, f *harness.Fleet) {
	awaitCalls(t, f)
	f.Postgres.Pause()
	defer f.Postgres.Resume()
	last(t, 3*lease)
	f.Postgres.Resume()
	requireServes(t, f)
}

// restartsInRecovery kills everything, so that all that was under way is to be recovered, and lets PostgreSQL restart again
// and again while that is done.
func restartsInRecovery(t *testing.T, f *harness.Fleet) {
	awaitCalls(t, f)
	for _, r := range f.All() {
		r.Down()
	}
	unfinished := count(t, f, "SELECT count(*) FROM core.pipeline_run WHERE finished_at IS NULL AND $1", true)
	require.Positive(t, unfinished, "there is nothing to recover")
	for _, r := range f.All() {
		r.Up()
	}
	for range manyRestarts {
		f.Postgres.Stop()
		require.NoError(t, f.Postgres.Start(t.Context()))
	}
	for _, r := range f.All() {
		harness.Eventually(t, func() error { return r.Ready(t.Context()) })
	}
	requireServes(t, f)
}

// probe is a submit that is not repeated, of the run that all probes share.
func probe(ctx context.Context, f *harness.Fleet, name string) error {
	answer, err := harness.Exchange(ctx, http.MethodPost, f.Of(serve.Intake)[0].REST+"/v1/runs", f.API.Header("probe "+name), map[string]any{
		"pipeline": "chaos_transform", "input": map[string]any{"text": name}, "entity_id": "probe",
	})
	if err != nil {
		return err
	}
	return answer.Decode(nil)
}

// refused waits until submits are refused, by which the fault is felt.
func refused(t *testing.T, f *harness.Fleet) {
	t.Helper()
	n := 0
	harness.Eventually(t, func() error {
		n++
		if probe(t.Context(), f, fmt.Sprintf("%s %d", t.Name(), n)) == nil {
			return errors.New("submits are still accepted")
		}
		return nil
	})
}

// requireServes fails unless submits are accepted soon.
func requireServes(t *testing.T, f *harness.Fleet) {
	t.Helper()
	began := time.Now()
	harness.Eventually(t, func() error { return probe(t.Context(), f, t.Name()+" after") })
	took := time.Since(began)
	t.Logf("submits were accepted %v after the fault", took)
	require.Less(t, took, servesAgain, "until submits were accepted")
}
