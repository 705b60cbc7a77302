package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Pipe is a transaction's connection as generated queries see it (their DBTX), which saves round trips: Exec only queues its
// statement, and the next Query, or Flush, sends everything that is queued together. It is for one goroutine.
type Pipe struct {
	tx    pgx.Tx
	batch *pgx.Batch
	// last is the newest statement that Exec has queued.
	last *pgx.QueuedQuery
}

// NewPipe returns a Pipe of the transaction.
func NewPipe(tx pgx.Tx) *Pipe { return &Pipe{tx: tx, batch: &pgx.Batch{}} }

// Exec queues the statement. Its errors come from the Query or Flush that sends it.
func (p *Pipe) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	p.last = p.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

// Expect makes Flush fail if the statement queued last does not change n rows: the caller has seen them under a lock.
func (p *Pipe) Expect(n int, what string) {
	p.last.Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() != int64(n) {
			return fmt.Errorf("%s changed %d rows instead of %d", what, tag.RowsAffected(), n)
		}
		return nil
	})
}

// Query sends what is queued and then the query, and returns the query's rows.
func (p *Pipe) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	queued := p.batch.Len()
	p.batch.Queue(sql, args...)
	results := p.send(ctx)
	for range queued {
		if _, err := results.Exec(); err != nil {
			return nil, errors.Join(err, results.Close())
		}
	}
	rows, err := results.Query()
	if err != nil {
		return nil, errors.Join(err, results.Close())
	}
	return &pipedRows{Rows: rows, results: results}, nil
}

// QueryRow is Query for one row.
func (p *Pipe) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := p.Query(ctx, sql, args...)
	return firstRow{rows: rows, err: err}
}

// Flush sends what is queued, and returns the first error.
func (p *Pipe) Flush(ctx context.Context) error {
	if p.batch.Len() == 0 {
		return nil
	}
	return p.send(ctx).Close()
}

func (p *Pipe) send(ctx context.Context) pgx.BatchResults {
	results := p.tx.SendBatch(ctx, p.batch)
	p.batch, p.last = &pgx.Batch{}, nil
	return results
}

// pipedRows ends the exchange with the server when the rows are closed.
type pipedRows struct {
	pgx.Rows
	results pgx.BatchResults
	err     error
}

func (r *pipedRows) Close() {
	r.Rows.Close()
	if r.results != nil {
		r.err = r.results.Close()
		r.results = nil
	}
}

func (r *pipedRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *pipedRows) Err() error { return errors.Join(r.Rows.Err(), r.err) }

// firstRow scans the first of some rows.
type firstRow struct {
	rows pgx.Rows
	err  error
}

func (r firstRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
