package inspect

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"pawl.internal/services/internal/checkup"
	"pawl.internal/services/internal/pg"
)

const oweSpend = `
INSERT INTO llm.spend_owed AS o (run_id, version, since)
SELECT s.run_id, s.version, clock_timestamp()
FROM (SELECT unnest($1::uuid[]) AS id) k
JOIN llm.run_spend s ON s.run_id = k.id
ON CONFLICT (run_id) DO UPDATE SET version = greatest(o.version, excluded.version)`

// OweSpend owes the orchestrator the figures of the runs' purses, as every change of them does.
func OweSpend(ctx context.Context, t *checkup.Target, runs []uuid.UUID) (int, error) {
	tag, err := t.Pool.Exec(ctx, oweSpend, runs)
	if err != nil {
		return 0, fmt.Errorf("owe the figures of purses: %w", pg.Fault(err))
	}
	return int(tag.RowsAffected()), nil
}
