package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"pawl.internal/services/internal/checkup"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// recordChecks are about what is written beside the state of runs.
func recordChecks() []*checkup.Check {
	return []*checkup.Check{
		{
			Name:     "journal-gap",
			Promise:  "the journal of a run has the numbers 1 to the run's newest, each once",
			Means:    "what happened to the run is not told in full",
			Remedy:   "restore core.run_event from a backup; report the runs if nobody deleted anything",
			Severity: checkup.Broken, Find: checkup.OfRuns(journalGaps),
		},
		{
			Name:     "terminal-event",
			Promise:  "a run has exactly one terminal event each time it was opened, and one that goes on has none",
			Means:    "clients were told of an end twice, or never",
			Remedy:   "report the runs: it is a fault of the program's",
			Severity: checkup.Broken, Find: checkup.EachRun(terminalEvents),
		},
		{
			Name:     "idempotency-key",
			Promise:  "I05: every idempotency key leads to what it has made",
			Means:    "a repeated submit is answered with an id that does not exist",
			Remedy:   "report the keys: key and run are written in one transaction",
			Severity: checkup.Broken, Find: checkup.Recent(danglingKeys),
		},
		{
			Name:     "owed-by-nobody",
			Promise:  "what is owed to clients and to the gateway is owed for a run that exists",
			Means:    "it can never be confirmed",
			Remedy:   "report the runs; the rows of core.callback_owed, spend_gate_owed and call_cancel_owed may be deleted",
			Severity: checkup.Broken, Find: checkup.Query(owedByNobody),
		},
		{
			Name:     "operator-chain",
			Promise:  "I15: what people did is on record as they did it: no row of core.operator_action was changed, removed or slipped in",
			Means:    "somebody has tampered with the record",
			Remedy:   "compare core.operator_action with a backup",
			Severity: checkup.Broken, Find: brokenChain,
		},
	}
}

const journalGaps = `
SELECT j.id::text, j.id, 'has ' || j.n || ' entries up to number ' || j.newest || ', and its newest is ' || j.seq
FROM (
    SELECT r.id, r.seq, e.n, e.newest
    FROM (SELECT unnest($1::uuid[]) AS id) k
    JOIN core.pipeline_run r ON r.id = k.id
    CROSS JOIN LATERAL (SELECT count(*) AS n, coalesce(max(e.seq), 0) AS newest FROM core.run_event e WHERE e.run_id = r.id) e
) j
WHERE j.n <> j.seq OR j.newest <> j.seq`

const danglingKeys = `
SELECT i.tenant || '/' || i.key, i.resource_id, i.kind || ' of key ' || i.key || ' of tenant ' || i.tenant
FROM (SELECT tenant, key, kind, resource_id FROM core.idempotency ORDER BY expires_at DESC LIMIT $1) i
WHERE i.kind IN ('run', 'job', 'extract') AND NOT EXISTS (SELECT FROM core.pipeline_run r WHERE r.id = i.resource_id)
   OR i.kind = 'batch' AND NOT EXISTS (SELECT FROM core.batch b WHERE b.id = i.resource_id)
   OR i.kind = 'document' AND NOT EXISTS (SELECT FROM core.document d WHERE d.id = i.resource_id)`

const owedByNobody = `
SELECT o.what || '/' || o.run_id, o.run_id, o.what
FROM (
    SELECT c.subject_id AS run_id, 'a callback' AS what FROM core.callback_owed c WHERE c.subject = 'run'
    UNION ALL
    SELECT g.run_id, 'a gate of its purse' FROM core.spend_gate_owed g
    UNION ALL
    SELECT c.run_id, 'an abort of its calls' FROM core.call_cancel_owed c
) o
WHERE NOT EXISTS (SELECT FROM core.pipeline_run r WHERE r.id = o.run_id)`

const runEvents = `
SELECT r.id, r.status, e.seq, e.kind, e.detail
FROM (SELECT unnest($1::uuid[]) AS id) k
JOIN core.pipeline_run r ON r.id = k.id
JOIN core.run_event e ON e.run_id = r.id AND e.step = ''
ORDER BY r.id, e.seq`

// runEvent is an entry of the journal about a run as a whole.
type runEvent struct {
	Run    uuid.UUID
	Status machine.RunStatus
	Seq    int64
	Kind   machine.Kind
	Detail []byte
}

// opens reports whether the entry opens a run again that had ended.
func (e *runEvent) opens() bool {
	return e.Kind == machine.KindOperatorRetry || e.Kind == machine.KindRerunFrom
}

// changed is the state that the entry says the run came into; empty if it says none.
func (e *runEvent) changed() machine.RunStatus {
	var detail struct {
		Status machine.RunStatus `json:"status"`
	}
	if json.Unmarshal(e.Detail, &detail) != nil || !slices.Contains(machine.AllRunStatuses(), detail.Status) {
		return ""
	}
	return detail.Status
}

// terminalEvents follows the runs through their journals. Details are read here and not by the server, which refuses some
// texts that they may hold.
func terminalEvents(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) ([]checkup.Finding, error) {
	rows, err := tx.Query(ctx, runEvents, ids)
	if err != nil {
		return nil, err
	}
	events, err := pgx.CollectRows(rows, pgx.RowToStructByPos[runEvent])
	if err != nil {
		return nil, err
	}
	var found []checkup.Finding
	for rest := events; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(e runEvent) bool { return e.Run != rest[0].Run })
		if n < 0 {
			n = len(rest)
		}
		if wrong := ends(rest[:n]); wrong != "" {
			found = append(found, checkup.Finding{Key: rest[0].Run.String(), Run: rest[0].Run, Detail: wrong})
		}
		rest = rest[n:]
	}
	return found, nil
}

// ends says what is wrong with the terminal events of a run.
func ends(events []runEvent) string {
	ended, at := false, int64(0)
	for i := range events {
		switch status := events[i].changed(); {
		case status == "":
			ended = ended && !events[i].opens()
		case status.Terminal() && ended:
			return fmt.Sprintf("entry %d (%s) ends the run again that entry %d had ended", events[i].Seq, events[i].Kind, at)
		default:
			ended, at = status.Terminal(), events[i].Seq
		}
	}
	if status := events[0].Status; ended != status.Terminal() {
		return fmt.Sprintf("is %s, and its journal says that it has ended: %t", status, ended)
	}
	return ""
}

func brokenChain(ctx context.Context, t *checkup.Target) (found []checkup.Finding, err error) {
	err = t.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		broken, err := store.CheckActions(ctx, tx, t.Recent)
		for _, b := range broken[:min(len(broken), checkup.Most)] {
			found = append(found, checkup.Finding{
				Key: fmt.Sprint(b.Seq), Run: b.RunID, Detail: fmt.Sprintf("action %d: %s", b.Seq, b.What),
			})
		}
		return err
	})
	return found, err
}
