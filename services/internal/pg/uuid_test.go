package pg_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/testkit"
)

func TestUUIDsTravelAsBytes(t *testing.T) {
	pool := testkit.Postgres(t).Pool
	a, b := uuid.New(), uuid.New()
	var one uuid.UUID
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT $1::uuid", a).Scan(&one))
	require.Equal(t, a, one)
	var none *uuid.UUID
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT $1::uuid", none).Scan(&none))
	require.Nil(t, none)
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT $1::uuid", &b).Scan(&none))
	require.Equal(t, b, *none)
	for _, list := range [][]uuid.UUID{{a, b, a}, {a}, {}} {
		var back []uuid.UUID
		var texts []string
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT $1::uuid[], $1::uuid[]::text[]", list).Scan(&back, &texts))
		require.Equal(t, list, back)
		require.Len(t, texts, len(list))
	}
	var missing bool
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT $1::uuid[] IS NULL", []uuid.UUID(nil)).Scan(&missing))
	require.True(t, missing)
}
