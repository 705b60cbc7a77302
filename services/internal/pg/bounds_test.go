package pg_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/pg"
)

func TestBounds(t *testing.T) {
	t.Parallel()
	a, b, c := uuid.UUID{1}, uuid.UUID{2}, uuid.UUID{255}
	least, most := pg.Bounds(b, c, a)
	require.Equal(t, []uuid.UUID{a, c}, []uuid.UUID{least, most})
	least, most = pg.Bounds(b)
	require.Equal(t, []uuid.UUID{b, b}, []uuid.UUID{least, most})
	least, most = pg.Bounds()
	require.Equal(t, []uuid.UUID{{}, {}}, []uuid.UUID{least, most})
}
