package store

import (
	"context"
	"time"

	"pawl.internal/services/internal/pg"
)

// MakePartitions makes what is missing of the partitions of the next days; see pg.MakePartitions.
func (s *Store) MakePartitions(ctx context.Context, now time.Time) error {
	return pg.MakePartitions(ctx, s.control, Schema().Name, now)
}
