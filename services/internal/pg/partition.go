package pg

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// daysAhead is how many days have their partitions before they begin, so that a failure to make one can wait.
	daysAhead = 3
	// partitionWait bounds how long making a partition may wait for a lock: whoever comes after it would wait too.
	partitionWait = "500ms"
)

// partitioned is a table that is divided by days, with the storage options of its default partition.
type partitioned struct{ schema, name, options string }

const listPartitioned = `
SELECT t.relname, coalesce(array_to_string(d.reloptions, ', '), '')
FROM pg_partitioned_table p
JOIN pg_class t ON t.oid = p.partrelid
JOIN pg_class d ON d.oid = p.partdefid
JOIN pg_namespace n ON n.oid = t.relnamespace
WHERE n.nspname = $1
ORDER BY t.relname`

// MakePartitions makes what is missing of the partitions of the next days, beginning with the day of now, of every table in
// the schema that is partitioned by an id of UUID v7. Several replicas may do so at once. Until a day has its partitions its
// rows go to the default ones, which works as well.
func MakePartitions(ctx context.Context, pool *pgxpool.Pool, schema string, now time.Time) error {
	tables, err := partitionedTables(ctx, pool, schema)
	if err != nil {
		return err
	}
	today := now.UTC().Truncate(24 * time.Hour)
	var errs []error
	for _, table := range tables {
		for d := range daysAhead {
			errs = append(errs, table.make(ctx, pool, today.AddDate(0, 0, d)))
		}
	}
	return errors.Join(errs...)
}

// MissingPartitions lists the partitions that are missing of the day of now and the one after it, as schema.table.
func MissingPartitions(ctx context.Context, pool *pgxpool.Pool, schema string, now time.Time) ([]string, error) {
	tables, err := partitionedTables(ctx, pool, schema)
	if err != nil {
		return nil, err
	}
	today := now.UTC().Truncate(24 * time.Hour)
	var missing []string
	for _, table := range tables {
		for d := range 2 {
			name := table.partition(today.AddDate(0, 0, d))
			var exists bool
			query := "SELECT to_regclass($1) IS NOT NULL"
			if err := pool.QueryRow(ctx, query, pgx.Identifier{schema, name}.Sanitize()).Scan(&exists); err != nil {
				return nil, fmt.Errorf("look for partition %s: %w", name, Fault(err))
			}
			if !exists {
				missing = append(missing, schema+"."+name)
			}
		}
	}
	return missing, nil
}

func partitionedTables(ctx context.Context, pool *pgxpool.Pool, schema string) ([]partitioned, error) {
	rows, err := pool.Query(ctx, listPartitioned, schema)
	if err != nil {
		return nil, fmt.Errorf("list partitioned tables: %w", Fault(err))
	}
	tables, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (partitioned, error) {
		t := partitioned{schema: schema}
		return t, row.Scan(&t.name, &t.options)
	})
	if err != nil {
		return nil, fmt.Errorf("list partitioned tables: %w", Fault(err))
	}
	return tables, nil
}

// partition is the name of the table's partition of a day.
func (t partitioned) partition(day time.Time) string { return t.name + "_" + day.Format("20060102") }

// make makes the table's partition of the day if it is missing.
func (t partitioned) make(ctx context.Context, pool *pgxpool.Pool, day time.Time) error {
	name := t.partition(day)
	err := InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtext($1))", t.schema+".partition"); err != nil {
			return err
		}
		var exists bool
		qualified := pgx.Identifier{t.schema, name}.Sanitize()
		if err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", qualified).Scan(&exists); err != nil || exists {
			return err
		}
		return t.attach(ctx, tx, qualified, day)
	})
	if err != nil {
		return fmt.Errorf("make partition %s: %w", name, err)
	}
	return nil
}

// attach makes a table like its parent and attaches it: unlike creating it in place, that takes no lock on the parent
// which would stop readers and writers.
func (t partitioned) attach(ctx context.Context, tx pgx.Tx, partition string, day time.Time) error {
	parent := pgx.Identifier{t.schema, t.name}.Sanitize()
	options := ""
	if t.options != "" {
		options = "WITH (" + t.options + ")"
	}
	for _, statement := range []string{
		"SET LOCAL lock_timeout = '" + partitionWait + "'",
		fmt.Sprintf("CREATE TABLE %s (LIKE %s INCLUDING ALL) %s", partition, parent, options),
		fmt.Sprintf("ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')",
			parent, partition, firstID(day), firstID(day.AddDate(0, 0, 1))),
	} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// firstID is the smallest UUID v7 of the day.
func firstID(day time.Time) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], uint64(day.UnixMilli())<<16)
	return id
}
