// Package checkup is the form in which the owners of stores say what can be checked on a live system: a Check is one promise,
// with the query that finds where it is broken. Examine carries checks out; what is true only after a while is reported only
// when it stays.
//
// Nothing here knows a table. Checks read; only Mend changes anything, and never the state of a run.
package checkup

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"pawl.internal/services/internal/clock"
)

// Most bounds the findings of a check; there may be more.
const Most = 1000

// runsAtOnce is how many runs one snapshot is asked about.
const runsAtOnce = 500

// Severity says what a finding means for the system's promises.
type Severity string

// The severities.
const (
	// Broken: a promise is not kept.
	Broken Severity = "broken"
	// Warning: a promise can be broken by what may happen next.
	Warning Severity = "warning"
	// Note: a fact that a person may want to know.
	Note Severity = "note"
)

// Target is the system that is looked at.
type Target struct {
	Pool   *pgxpool.Pool
	Redis  redis.UniversalClient
	Prefix string
	Clock  clock.Clock
	// Runs are those that checks of runs look at.
	Runs []uuid.UUID
	// Recent bounds what is looked at of tables that only grow, the newest first.
	Recent int
}

// Finding is one place where a promise is not kept.
type Finding struct {
	// Key names the place and its state: the same key a while later means that nothing has changed.
	Key string
	// Run is the run concerned; zero if it is none.
	Run uuid.UUID
	// Detail says what was found, in words.
	Detail string
	// Settles, if set, takes the place of the check's.
	Settles time.Duration
	// Place is what the check's own Mend needs to know.
	Place any
}

// Check is one promise and how it is looked at.
type Check struct {
	// Name is how the check is called on the command line.
	Name string
	// Promise says what holds, Means what it means that it does not, and Remedy what to do.
	Promise, Means, Remedy string
	Severity               Severity
	// Settles is how long the system may take to put it right by itself: a finding counts when it has stayed for longer. Zero
	// for what holds at every moment.
	Settles time.Duration
	// Find looks once. What it returns was true in one snapshot.
	Find func(ctx context.Context, t *Target) ([]Finding, error)
	// Repair says what Mend does; both are empty where no repair is safe. Mend returns how many findings it has dealt with.
	Repair string
	Mend   func(ctx context.Context, t *Target, found []Finding) (int, error)
}

// Snapshot runs fn in a transaction that reads one state of the database and writes nothing.
func (t *Target) Snapshot(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, t.Pool, options, func(tx pgx.Tx) error { return fn(ctx, tx) })
}

// Query returns a Find that asks once. The query gives rows of key, run (may be NULL) and detail.
func Query(query string, args ...any) func(context.Context, *Target) ([]Finding, error) {
	return func(ctx context.Context, t *Target) (found []Finding, err error) {
		err = t.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
			found, err = Ask(ctx, tx, query, args...)
			return err
		})
		return found, err
	}
}

// Recent is Query for a query whose $1 is how many of the newest rows are looked at.
func Recent(query string) func(context.Context, *Target) ([]Finding, error) {
	return func(ctx context.Context, t *Target) ([]Finding, error) {
		return Query(query, t.Recent)(ctx, t)
	}
}

// OfRuns is Query for a query about the runs whose ids are $1. It is asked in portions, each in a snapshot of its own.
func OfRuns(query string) func(context.Context, *Target) ([]Finding, error) {
	return EachRun(func(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) ([]Finding, error) {
		return Ask(ctx, tx, query, ids)
	})
}

// EachRun returns a Find that looks at the target's runs in portions, each in a snapshot of its own.
func EachRun(
	find func(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) ([]Finding, error),
) func(context.Context, *Target) ([]Finding, error) {
	return func(ctx context.Context, t *Target) ([]Finding, error) {
		var all []Finding
		for rest := t.Runs; len(rest) > 0 && len(all) < Most; {
			ids := rest[:min(runsAtOnce, len(rest))]
			rest = rest[len(ids):]
			err := t.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
				found, err := find(ctx, tx, ids)
				all = append(all, found...)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
		return all, nil
	}
}

// Ask carries out a query that gives rows of key, run (may be NULL) and detail.
func Ask(ctx context.Context, tx pgx.Tx, query string, args ...any) ([]Finding, error) {
	rows, err := tx.Query(ctx, fmt.Sprintf("SELECT f.* FROM (%s) f(key, run, detail) LIMIT %d", query, Most), args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Finding, error) {
		var f Finding
		var run *uuid.UUID
		err := row.Scan(&f.Key, &run, &f.Detail)
		if run != nil {
			f.Run = *run
		}
		return f, err
	})
}
