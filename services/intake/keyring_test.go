package intake

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/testkit"
)

// TestKeysAreRemembered: a key is looked up once a minute, by however many calls, and a revoked one ends within a minute.
func TestKeysAreRemembered(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t, store.Schema())
	clk := clocktest.New()
	ring := newKeyring(store.New(db.Pool), clk)
	key, err := EnsureKey(t.Context(), db.Pool, "acme", store.RoleClient, "")
	require.NoError(t, err)

	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			holder, err := ring.identify(t.Context(), key)
			if err != nil || holder.tenant != "acme" || holder.role != store.RoleClient {
				t.Errorf("got %v, %v", holder, err)
			}
		})
	}
	calls.Wait()
	_, err = db.Pool.Exec(t.Context(), "UPDATE access.api_key SET revoked_at = clock_timestamp()")
	require.NoError(t, err)
	clk.Advance(keyTTL - time.Second)
	_, err = ring.identify(t.Context(), key)
	require.NoError(t, err, "nobody has looked")
	clk.Advance(time.Second)
	_, err = ring.identify(t.Context(), key)
	require.ErrorContains(t, err, "has been revoked")
	require.NotContains(t, err.Error(), strings.Split(key, "_")[2])
}

// TestRefusalsAreRememberedShortly: a key that is stored after a try that came too early is soon good.
func TestRefusalsAreRememberedShortly(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t, store.Schema())
	clk := clocktest.New()
	ring := newKeyring(store.New(db.Pool), clk)
	const key = "pawl_early_0123456789abcdef"
	_, err := ring.identify(t.Context(), key)
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED))
	_, err = EnsureKey(t.Context(), db.Pool, "acme", store.RoleClient, key)
	require.NoError(t, err)
	_, err = ring.identify(t.Context(), key)
	require.Error(t, err)
	clk.Advance(unknownKeyTTL)
	_, err = ring.identify(t.Context(), key)
	require.NoError(t, err)
}

// TestMadeUpKeysDoNotFillTheMemory also shows that what is known survives until there is no room.
func TestMadeUpKeysDoNotFillTheMemory(t *testing.T) {
	t.Parallel()
	ring := newKeyring(nil, clocktest.New())
	for i := range 3 * maxKeys {
		_, digest, err := splitKey(fmt.Sprintf("pawl_made%d_0123456789abcdef", i))
		require.NoError(t, err)
		ring.remember(digest, answer{err: errUnknownKey()}, keyTTL)
		require.LessOrEqual(t, len(ring.answers), maxKeys)
	}
}

// TestADatabaseThatIsAwayIsNoRefusal: it is 503, and not remembered.
func TestADatabaseThatIsAwayIsNoRefusal(t *testing.T) {
	t.Parallel()
	server := testkit.PrivatePostgres(t)
	db := testkit.DatabaseAt(t, server.URL(), store.Schema())
	ring := newKeyring(store.New(db.Pool), clocktest.New())
	key, err := EnsureKey(t.Context(), db.Pool, "acme", store.RoleClient, "")
	require.NoError(t, err)
	server.Kill()
	_, err = ring.identify(t.Context(), key)
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_UNAVAILABLE), "%v", err)
	require.NoError(t, server.Start(context.WithoutCancel(t.Context())))
	testkit.Eventually(t, 10*time.Second, func() error {
		_, err := ring.identify(t.Context(), key)
		return err
	})
}

// TestTheLastUseIsKeptUntilItIsStored: what a flush could not store, the next one does.
func TestTheLastUseIsKeptUntilItIsStored(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t, store.Schema())
	clk := clocktest.New()
	ring := newKeyring(store.New(db.Pool), clk)
	key, err := EnsureKey(t.Context(), db.Pool, "acme", store.RoleClient, "")
	require.NoError(t, err)
	_, err = ring.identify(t.Context(), key)
	require.NoError(t, err)

	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no time"))
	require.Error(t, ring.flush(ended))
	require.NoError(t, ring.flush(t.Context()))
	var used time.Time
	require.NoError(t, db.Pool.QueryRow(t.Context(), "SELECT last_used_at FROM access.api_key").Scan(&used))
	require.True(t, used.Equal(clk.Now()), "%v", used)
	require.Empty(t, ring.used)
}
