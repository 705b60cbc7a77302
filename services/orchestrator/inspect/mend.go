package inspect

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"pawl.internal/services/internal/checkup"
	"pawl.internal/services/internal/pg"
)

// The epoch is the run's: if it is opened again meanwhile, the gateway ignores the closing of the one before.
const oweClosing = `
INSERT INTO core.spend_gate_owed (run_id, tenant, epoch, open, budget_usd, owed_at)
SELECT r.id, r.tenant, r.spend_epoch, false, r.budget_usd, clock_timestamp()
FROM (SELECT unnest($1::uuid[]) AS id) k
JOIN core.pipeline_run r ON r.id = k.id
WHERE r.status IN ('failed', 'cancelled')
ON CONFLICT (run_id) DO NOTHING`

// OweClosing owes the gateway the closing of the purses of runs that have ended without success, as their ends did.
func OweClosing(ctx context.Context, t *checkup.Target, runs []uuid.UUID) (int, error) {
	tag, err := t.Pool.Exec(ctx, oweClosing, runs)
	if err != nil {
		return 0, fmt.Errorf("owe the closing of purses: %w", pg.Fault(err))
	}
	return int(tag.RowsAffected()), nil
}
