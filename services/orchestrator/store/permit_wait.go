package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store/db"
)

// PermitWait is a step that waits for a permit, as its runner tells it in a heartbeat.
type PermitWait struct {
	Ref
	ClaimNo int
	// Limit is the name of the limit, and Waited how long the step had waited for its permit then.
	Limit  string
	Waited time.Duration
}

// storedWait is a PermitWait as core.runner has it.
type storedWait struct {
	Run        uuid.UUID     `json:"run"`
	Step       string        `json:"step"`
	Shard      int           `json:"shard"`
	Generation int           `json:"generation"`
	ClaimNo    int           `json:"claim_no"`
	Limit      string        `json:"limit"`
	Waited     time.Duration `json:"waited_ns"`
}

func storedWaits(waits []PermitWait) ([]byte, error) {
	stored := make([]storedWait, len(waits))
	for i, w := range waits {
		stored[i] = storedWait{
			Run: w.RunID, Step: w.Step, Shard: w.Shard, Generation: w.Generation, ClaimNo: w.ClaimNo, Limit: w.Limit, Waited: w.Waited,
		}
	}
	return json.Marshal(stored)
}

// claimKey names a claim.
type claimKey struct {
	Ref
	claimNo int
}

// permitWaits reads what the runners that execute the rows have told of permits they wait for.
func permitWaits(ctx context.Context, q *db.Queries, rows []db.ListLiveRow) (map[claimKey]machine.PermitWait, error) {
	var runners []uuid.UUID
	seen := map[uuid.UUID]bool{}
	for i := range rows {
		if w := rows[i].Worker; rows[i].Status == string(machine.StepRunning) && w != nil && !seen[*w] {
			seen[*w] = true
			runners = append(runners, *w)
		}
	}
	if len(runners) == 0 {
		return nil, nil //nolint:nilnil // nobody waits
	}
	told, err := q.ReadPermitWaits(ctx, runners)
	if err != nil {
		return nil, fmt.Errorf("read permit waits: %w", err)
	}
	waits := map[claimKey]machine.PermitWait{}
	for _, t := range told {
		var stored []storedWait
		if err := json.Unmarshal(t.PermitWaits, &stored); err != nil {
			return nil, fmt.Errorf("permit waits of a runner: %w", err)
		}
		for _, w := range stored {
			key := claimKey{Ref{RunID: w.Run, Step: w.Step, Shard: w.Shard, Generation: w.Generation}, w.ClaimNo}
			waits[key] = machine.PermitWait{Limit: w.Limit, Since: t.HeartbeatAt.Add(-w.Waited)}
		}
	}
	return waits, nil
}
