package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"pawl.internal/services/intake/store"
	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func digest(fill byte) []byte { return []byte(strings.Repeat(string(fill), 32)) }

func TestKeys(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t, store.Schema())
	s := store.New(db.Pool)
	key := store.Key{Prefix: "abcd", Hash: digest('1'), Tenant: "acme", Role: store.RoleClient}
	_, err := s.FindKey(t.Context(), "abcd")
	require.ErrorIs(t, err, store.ErrNotFound)
	added, err := s.AddKey(t.Context(), key)
	require.NoError(t, err)
	require.True(t, added)
	again, err := s.AddKey(t.Context(), store.Key{Prefix: "abcd", Hash: digest('2'), Tenant: "other", Role: store.RoleAdmin})
	require.NoError(t, err)
	require.False(t, again)
	found, err := s.FindKey(t.Context(), "abcd")
	require.NoError(t, err)
	require.Greater(t, found.Left, 24*time.Hour, "it does not expire")
	key.Left = found.Left
	require.Equal(t, key, found, "the first one stays")

	for column, want := range map[string]store.Key{
		"revoked_at": {Revoked: true}, "expires_at": {Expired: true},
	} {
		for _, change := range []string{"revoked_at = NULL, expires_at = NULL", column + " = clock_timestamp()"} {
			_, err = db.Pool.Exec(t.Context(), "UPDATE access.api_key SET "+change)
			require.NoError(t, err)
		}
		found, err := s.FindKey(t.Context(), "abcd")
		require.NoError(t, err)
		require.Equal(t, [2]bool{want.Revoked, want.Expired}, [2]bool{found.Revoked, found.Expired}, column)
	}
}

func TestTouchKeysKeepsTheLatest(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t, store.Schema())
	s := store.New(db.Pool)
	_, err := s.AddKey(t.Context(), store.Key{Prefix: "abcd", Hash: digest('1'), Tenant: "acme", Role: store.RoleClient})
	require.NoError(t, err)
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, at := range []time.Time{noon, noon.Add(-time.Hour)} {
		require.NoError(t, s.TouchKeys(t.Context(), map[string]time.Time{"abcd": at, "gone": at}))
	}
	var used time.Time
	require.NoError(t, db.Pool.QueryRow(t.Context(), "SELECT last_used_at FROM access.api_key").Scan(&used))
	require.True(t, noon.Equal(used), "%v", used)
}

func TestReplicasShareASigningKey(t *testing.T) {
	t.Parallel()
	s := store.New(testkit.Postgres(t, store.Schema()).Pool)
	keys := make([]string, 8)
	var replicas errgroup.Group
	for i := range keys {
		replicas.Go(func() error {
			key, err := s.SigningKey(t.Context(), "page_token", [32]byte{byte(i)})
			keys[i] = string(key)
			return err
		})
	}
	require.NoError(t, replicas.Wait())
	for _, key := range keys {
		require.Equal(t, keys[0], key)
	}
	other, err := s.SigningKey(t.Context(), "another", [32]byte{99})
	require.NoError(t, err)
	require.NotEqual(t, keys[0], string(other))
}

// TestRolesAreThoseOfTheSchema: the database takes these roles and no other.
func TestRolesAreThoseOfTheSchema(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t, store.Schema())
	var check string
	require.NoError(t, db.Pool.QueryRow(t.Context(),
		"SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'api_key_role_check'").Scan(&check))
	for _, role := range store.Roles() {
		require.Contains(t, check, fmt.Sprintf("'%s'", role))
	}
	require.Equal(t, len(store.Roles()), strings.Count(check, "::text,")+1, check)
}

func TestRolesIncludeTheLesser(t *testing.T) {
	t.Parallel()
	for i, role := range store.Roles() {
		for j, needed := range store.Roles() {
			require.Equal(t, i >= j, role.Allows(needed), "%s %s", role, needed)
		}
		require.False(t, role.Allows("owner"))
	}
	require.False(t, store.Role("owner").Allows(store.RoleViewer))
}
