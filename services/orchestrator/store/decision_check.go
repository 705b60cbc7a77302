package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"pawl.internal/services/orchestrator/store/db"
)

// actionsAtOnce is how many links of the chain are read at a time.
const actionsAtOnce = 1000

const actionsAfter = `
SELECT seq, at, tenant, actor, action, run_id, step, shard, reason, before, after, previous_hash, hash
FROM core.operator_action WHERE seq > $1 ORDER BY seq LIMIT $2`

// storedAction is a row of core.operator_action.
type storedAction struct {
	Seq                   int64
	At                    time.Time
	Tenant, Actor, Action string
	RunID                 uuid.UUID
	Step                  string
	Shard                 int32
	Reason                string
	Before, After         []byte
	PreviousHash, Hash    []byte
}

// BrokenAction is a decision that was changed, removed or slipped in after it was written.
type BrokenAction struct {
	Seq   int64
	RunID uuid.UUID
	What  string
}

// CheckActions follows the chain of decisions from its beginning, or from the newest most of them, and returns the links that
// do not hold.
func CheckActions(ctx context.Context, tx pgx.Tx, most int) ([]BrokenAction, error) {
	query := db.New(tx)
	last, err := query.LastOperatorAction(ctx)
	if err != nil {
		return nil, fmt.Errorf("read operator actions: %w", err)
	}
	seq := max(0, last.Seq-int64(most))
	var before []byte
	var broken []BrokenAction
	for first := seq > 0; ; {
		rows, err := collect[storedAction](ctx, tx, actionsAfter, seq, actionsAtOnce)
		if err != nil {
			return nil, fmt.Errorf("read operator actions: %w", err)
		}
		for i := range rows {
			what := checkLink(&rows[i], seq+1, before, first)
			if what != "" {
				broken = append(broken, BrokenAction{Seq: rows[i].Seq, RunID: rows[i].RunID, What: what})
			}
			seq, before, first = rows[i].Seq, rows[i].Hash, false
		}
		if len(rows) < actionsAtOnce {
			return broken, nil
		}
	}
}

// checkLink says what is wrong with a link; of the first one that is read, what came before is not known.
func checkLink(row *storedAction, seq int64, before []byte, first bool) string {
	switch sum, err := hashOf(row); {
	case row.Seq != seq:
		return fmt.Sprintf("%d is missing before it", row.Seq-seq)
	case !first && !bytes.Equal(row.PreviousHash, before):
		return "it does not follow the one before it"
	case err != nil:
		return "it cannot be read: " + err.Error()
	case !bytes.Equal(sum, row.Hash):
		return "it was changed after it was written"
	default:
		return ""
	}
}

// hashOf is the hash that the row had when it was written.
func hashOf(row *storedAction) ([]byte, error) {
	a := action{
		Seq: row.Seq, At: row.At, Tenant: row.Tenant, Actor: row.Actor, Action: row.Action, RunID: row.RunID,
		Step: row.Step, Shard: int(row.Shard), Reason: row.Reason, Previous: row.PreviousHash,
	}
	if err := json.Unmarshal(row.Before, &a.Before); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(row.After, &a.After); err != nil {
		return nil, err
	}
	text, err := json.Marshal(&a)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return sum[:], nil
}
