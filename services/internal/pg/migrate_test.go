package pg_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/testkit"
)

// grown is the shop with a second migration, which must stand outside of a transaction.
func grown() pg.Schema {
	files := fstest.MapFS{"00002_index.sql": {Data: []byte(`-- +goose NO TRANSACTION
-- +goose Up
CREATE INDEX CONCURRENTLY item_at ON shop.item (at);
`)}}
	for name, file := range shop().Files.(fstest.MapFS) { // that is what it is made of
		files[name] = file
	}
	return pg.Schema{Name: "shop", Files: files}
}

func TestMigrateByManyAtOnce(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	other := pg.Schema{Name: "other", Files: fstest.MapFS{
		"00001_x.sql": {Data: []byte("-- +goose Up\nCREATE TABLE other.x (id int);")},
	}}
	done := make(chan error, 4)
	for range cap(done) {
		go func() { done <- pg.Migrate(t.Context(), db.URL, grown(), other) }()
	}
	for range cap(done) {
		require.NoError(t, <-done)
	}
	require.NoError(t, pg.CheckVersion(t.Context(), db.Pool, grown(), other))
	require.Zero(t, count(t, db))
}

func TestCheckVersionSaysWhatToDo(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	err := pg.CheckVersion(t.Context(), db.Pool, grown())
	require.EqualError(t, err,
		"database schema shop is at version 0 and this build needs 2: run `pawl migrate` first")
	require.NoError(t, pg.Migrate(t.Context(), db.URL, shop()))
	require.NoError(t, pg.CheckVersion(t.Context(), db.Pool, shop()))
	require.ErrorContains(t, pg.CheckVersion(t.Context(), db.Pool, grown()), "is at version 1 and this build needs 2")
	require.NoError(t, pg.Migrate(t.Context(), db.URL, grown()))
	require.NoError(t, pg.CheckVersion(t.Context(), db.Pool, shop()), "an older build must run on a newer schema")
}

func TestBrokenMigrationLeavesNothingAndNamesItself(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	broken := pg.Schema{Name: "broken", Files: fstest.MapFS{
		"00001_half.sql": {Data: []byte("-- +goose Up\nCREATE TABLE broken.x (id int);\nCREATE TABLE broken.x (id int);")},
	}}
	err := pg.Migrate(t.Context(), db.URL, broken)
	require.ErrorContains(t, err, "migrate broken/00001_half.sql: ")
	var exists bool
	require.NoError(t, db.Pool.QueryRow(t.Context(), "SELECT to_regclass('broken.x') IS NOT NULL").Scan(&exists))
	require.False(t, exists)
}
