package pg_test

import (
	"context"
	"errors"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// shop is a small schema of its own, with every type that the services' queries use.
func shop() pg.Schema {
	return pg.Schema{Name: "shop", Files: fstest.MapFS{
		"00001_item.sql": {Data: []byte(`-- +goose Up
CREATE TABLE shop.item (
	id uuid PRIMARY KEY, parent uuid, at timestamptz NOT NULL, ended timestamptz,
	cost numeric(20,12) NOT NULL, budget numeric(20,12), doc json, label text CONSTRAINT item_label UNIQUE, n int NOT NULL
);
`)},
	}}
}

func TestTypesSurviveARoundTripThroughArrays(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t, shop())
	ids := []uuid.UUID{uuid.New(), uuid.New()}
	parents := []uuid.UUID{ids[1], {}}
	at := time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC)
	costs := []money.Pico{1, -2 * money.Dollar}
	docs := [][]byte{[]byte(`{"a": "\u0000"}`), []byte(`[1e400]`)}
	_, err := db.Pool.Exec(t.Context(), `INSERT INTO shop.item (id, parent, at, cost, doc, n)
		SELECT unnest($1::uuid[]), NULLIF(unnest($2::uuid[]), $7::uuid), unnest($3::timestamptz[]), unnest($4::numeric[]),
			unnest($5::json[]), unnest($6::int[])`,
		ids, parents, []time.Time{at, at}, costs, docs, []int32{1, 2}, uuid.UUID{})
	require.NoError(t, err)

	type row struct {
		ID     uuid.UUID
		Parent *uuid.UUID
		At     time.Time
		Ended  *time.Time
		Cost   money.Pico
		Budget *money.Pico
		Doc    []byte
	}
	rows, err := db.Pool.Query(t.Context(),
		`SELECT id, parent, at, ended, cost, budget, doc FROM shop.item WHERE id = ANY($1::uuid[]) ORDER BY n`, ids)
	require.NoError(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	require.NoError(t, err)
	require.Equal(t, []row{
		{ID: ids[0], Parent: &ids[1], At: at, Cost: 1, Doc: docs[0]},
		{ID: ids[1], At: at, Cost: -2 * money.Dollar, Doc: docs[1]},
	}, got)

	var all []uuid.UUID
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT array_agg(id ORDER BY n) FROM shop.item`).Scan(&all))
	require.Equal(t, ids, all)
	var none []uuid.UUID
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT $1::uuid[]`, []uuid.UUID{}).Scan(&all))
	require.Empty(t, all)
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT $1::uuid[]`, none).Scan(&all))
	require.Nil(t, all)
	var id uuid.UUID
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT $1::uuid`, &ids[0]).Scan(&id))
	require.Equal(t, ids[0], id)
	require.Error(t, db.Pool.QueryRow(t.Context(), `SELECT NULL::uuid`).Scan(&id))
	budget := 3 * money.Dollar
	_, err = db.Pool.Exec(t.Context(), `UPDATE shop.item SET budget = $1, ended = $2`, &budget, (*time.Time)(nil))
	require.NoError(t, err)
	var sum money.Pico
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT sum(budget) FROM shop.item`).Scan(&sum))
	require.Equal(t, 6*money.Dollar, sum)
}

func insert(ctx context.Context, tx pgx.Tx, label string) error {
	_, err := tx.Exec(ctx, `INSERT INTO shop.item (id, at, cost, label, n) VALUES ($1, now(), 0, $2, 1)`, uuid.New(), label)
	return err
}

func count(t *testing.T, db *testkit.Database) (n int) {
	t.Helper()
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM shop.item`).Scan(&n))
	return n
}

func TestInTxCommitsOrLeavesNothing(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t, shop())
	boom := errors.New("boom")
	err := pg.InTx(t.Context(), db.Pool, func(ctx context.Context, tx pgx.Tx) error {
		require.NoError(t, insert(ctx, tx, "a"))
		return boom
	})
	require.ErrorIs(t, err, boom)
	require.Zero(t, count(t, db))
	require.NoError(t, pg.InTx(t.Context(), db.Pool, func(ctx context.Context, tx pgx.Tx) error { return insert(ctx, tx, "a") }))
	require.Equal(t, 1, count(t, db))
	err = pg.InTx(t.Context(), db.Pool, func(ctx context.Context, tx pgx.Tx) error { return insert(ctx, tx, "a") })
	require.Equal(t, codes.AlreadyExists, fault.CodeOf(err))
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"":                                 "give --database-url",
		"postgres://u:hidden@h:notaport/x": "cannot be read",
		"postgres://u:hidden@127.0.0.1:1/x?sslmode=disable": `connect to database "x" at 127.0.0.1:1 as user "u"`,
	} {
		_, err := pg.Open(t.Context(), pg.Config{URL: config.NewSecret(url), ConnectTimeout: time.Second}, "test")
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hidden")
	}
}
