package pg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"pawl.internal/services/internal/fault"
)

const (
	// txTries bounds how often a transaction is begun anew after a serialization failure or a deadlock.
	txTries = 3
	// txTimeout bounds a transaction from our side, since a server that hangs does not end statements either.
	txTimeout = 30 * time.Second
)

// InTx runs fn in a transaction and commits it when fn returns nil. After a serialization failure or a deadlock it begins
// anew, a few times, so fn must overwrite whatever it left behind. Errors of the database come back as faults (Fault):
// UNAVAILABLE when the connection was lost and, then also matching ErrUncertain, when the COMMIT was sent and not answered.
func InTx(ctx context.Context, pool *pgxpool.Pool, fn func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, txTimeout)
	defer cancel()
	for try := 1; ; try++ {
		err := attempt(ctx, pool, fn)
		if hasState(err, readOnlyTransaction) {
			pool.Reset() // these connections lead to a server that is no longer the primary
		}
		if try < txTries && hasState(err, serializationFailure, deadlockDetected) {
			continue
		}
		return Fault(err)
	}
}

func attempt(ctx context.Context, pool *pgxpool.Pool, fn func(context.Context, pgx.Tx) error) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	// After a commit this does nothing; an error of it leaves a closed connection, which the pool replaces.
	defer func() { _ = tx.Rollback(ctx) }()
	if err := fn(ctx, tx); err != nil {
		return err
	}
	return commit(ctx, tx)
}

// commit sends the COMMIT and tells three ends apart: done, surely not done, and unknown.
func commit(ctx context.Context, tx pgx.Tx) error {
	if err := ctx.Err(); err != nil {
		return err // not sent
	}
	if tx.Conn().IsClosed() {
		return fault.Unavailable(net.ErrClosed, "the connection to the database was lost") // not sent
	}
	err := tx.Commit(ctx)
	if err == nil || rolledBack(err) {
		return err
	}
	return fault.Unavailable(errors.Join(ErrUncertain, err), "the database did not confirm the change; it may be repeated")
}

// rolledBack reports whether the server said that a COMMIT took no effect. A session that the server ends (FATAL) may have
// committed just before. pgconn.SafeToRetry is of no use here: it says yes also when the connection broke after the COMMIT
// was sent.
func rolledBack(err error) bool {
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		return said.SeverityUnlocalized == "ERROR"
	}
	return errors.Is(err, pgx.ErrTxCommitRollback)
}
