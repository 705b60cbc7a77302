package store_test

import (
	"crypto/sha256"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// cancel is the event that ann stops the run.
func cancel(run uuid.UUID) *store.Event {
	actor := machine.Actor{Name: "person:ann", Comment: "wrong file"}
	return &store.Event{
		Ref: store.OfRun(run), Tenant: tenant,
		Make:     func(machine.Ref, time.Time) machine.Event { return machine.CancelRequested{Actor: actor} },
		Decision: &store.Decision{Actor: actor.Name, Action: "cancel_requested", Reason: actor.Comment},
	}
}

func TestCancelStopsARunAndIsOnRecord(t *testing.T) {
	b := setup(t)
	b.chain("chain", 2)
	ref := b.next(b.create("chain"))
	h := b.grant(ref)
	require.Equal(t, machine.Applied, b.submit(cancel(ref.RunID)))
	require.Equal(t, "cancelled", b.status(ref.RunID))
	require.Zero(t, b.count(`core.step_live WHERE run_id = $1`, ref.RunID), "nothing that a worker could claim")
	require.Equal(t, machine.StopCancelled, b.submit(b.readopt(h)))
	err := b.store.Submit(t.Context(), b.succeed(h, `1`))[0]
	require.True(t, isStale(err), err)

	require.Equal(t, machine.Already, b.submit(cancel(ref.RunID)))
	require.Equal(t, 1, b.count(`core.operator_action WHERE run_id = $1 AND actor = 'person:ann' AND reason = 'wrong file'`, ref.RunID))
	require.Equal(t, 1, b.count(`core.run_event WHERE run_id = $1 AND actor = 'person:ann' AND detail->>'status' = 'cancelled'`, ref.RunID))
	var epoch int
	b.scan(`SELECT epoch FROM core.spend_gate_owed WHERE run_id = $1 AND NOT open`, []any{ref.RunID}, &epoch)
	require.Equal(t, 1, epoch)
}

func TestForeignRunsDoNotExist(t *testing.T) {
	b := setup(t)
	b.chain("chain", 1)
	run := b.create("chain")
	foreign := cancel(run)
	foreign.Tenant = "other"
	require.ErrorIs(t, b.store.Submit(t.Context(), foreign)[0], store.ErrNoRun)
	_, _, err := b.store.ReadRun(t.Context(), "other", run)
	require.ErrorIs(t, err, store.ErrNoRun)
	require.Equal(t, "queued", b.status(run))
}

// Each decision's hash covers the decision before, so that one that was changed or removed shows.
func TestDecisionsAreChained(t *testing.T) {
	b := setup(t)
	b.chain("chain", 1)
	for range 3 {
		b.submit(cancel(b.create("chain")))
	}
	rows, err := b.database.Pool.Query(t.Context(),
		`SELECT seq, at, tenant, actor, action, run_id, step, shard, reason, before, after, previous_hash, hash FROM core.operator_action ORDER BY seq`)
	require.NoError(t, err)
	defer rows.Close()
	var previous []byte
	n := 0
	for rows.Next() {
		var a struct {
			Seq      int64           `json:"seq"`
			At       time.Time       `json:"at"`
			Tenant   string          `json:"tenant"`
			Actor    string          `json:"actor"`
			Action   string          `json:"action"`
			RunID    uuid.UUID       `json:"run_id"`
			Step     string          `json:"step"`
			Shard    int             `json:"shard"`
			Reason   string          `json:"reason"`
			Before   json.RawMessage `json:"before"`
			After    json.RawMessage `json:"after"`
			Previous []byte          `json:"previous"`
		}
		var hash []byte
		require.NoError(t, rows.Scan(&a.Seq, &a.At, &a.Tenant, &a.Actor, &a.Action, &a.RunID, &a.Step, &a.Shard, &a.Reason,
			&a.Before, &a.After, &a.Previous, &hash))
		n++
		require.EqualValues(t, n, a.Seq)
		require.Equal(t, string(previous), string(a.Previous))
		text, err := json.Marshal(&a)
		require.NoError(t, err)
		sum := sha256.Sum256(text)
		require.Equal(t, sum[:], hash)
		previous = hash
	}
	require.NoError(t, rows.Err())
	require.Equal(t, 3, n)
}

func TestFailedRunIsOpenedAgain(t *testing.T) {
	b := setup(t)
	b.chain("chain", 2)
	run := b.create("chain")
	b.submit(b.succeed(b.grant(b.next(run)), `1`))
	b.submit(b.fail(b.grant(b.next(run))))
	require.Equal(t, "failed", b.status(run))
	retry := &store.Event{Ref: store.OfRun(run), Tenant: tenant, Make: func(machine.Ref, time.Time) machine.Event {
		return machine.OperatorRetry{Ref: machine.Ref{Key: machine.Key{Step: machine.AllSteps, Shard: machine.Whole}}}
	}}
	require.Equal(t, machine.Applied, b.submit(retry))
	require.Equal(t, "running", b.status(run))
	var epoch int
	var open bool
	b.scan(`SELECT epoch, open FROM core.spend_gate_owed WHERE run_id = $1`, []any{run}, &epoch, &open)
	require.Equal(t, 2, epoch)
	require.True(t, open)
	again := b.next(run)
	require.Equal(t, "b", again.Step, "what was finished does not run again")
	b.submit(b.succeed(b.grant(again), `2`))
	require.Equal(t, "done", b.status(run))
	require.JSONEq(t, `2`, b.output(again), "the failure's result is replaced")
}

func TestClientIsOwedACallback(t *testing.T) {
	b := setup(t)
	b.register(spec{Name: "told", Steps: []stepSpec{{Name: "a"}}, Callbacks: []string{machine.CallbackDone}})
	n := b.newRun("told")
	n.CallbackURL, n.EntityID = "https://client.example/hook", "contract-7"
	require.NoError(t, b.store.CreateRun(t.Context(), n))
	done := b.succeed(b.grant(b.next(n.ID)), `1`)
	done.Spend = &store.Spend{Spent: 1_234 * money.Dollar / 1_000_000, Version: 3}
	b.submit(done)
	var event, url string
	var snapshot struct {
		Status string      `json:"status"`
		Entity string      `json:"entity_id"`
		Output string      `json:"output_step"`
		Cost   json.Number `json:"cost_usd"`
	}
	var text []byte
	b.scan(`SELECT event, url, snapshot FROM core.callback_owed WHERE subject_id = $1`, []any{n.ID}, &event, &url, &text)
	require.Equal(t, machine.CallbackDone, event)
	require.Equal(t, n.CallbackURL, url)
	require.NoError(t, json.Unmarshal(text, &snapshot))
	require.Equal(t, "done", snapshot.Status)
	require.Equal(t, "contract-7", snapshot.Entity)
	require.Equal(t, "a", snapshot.Output)
	require.EqualValues(t, "0.001234", snapshot.Cost, "the cost that came with the last outcome")

	cancelled := b.newRun("told")
	cancelled.CallbackURL = n.CallbackURL
	require.NoError(t, b.store.CreateRun(t.Context(), cancelled))
	b.submit(cancel(cancelled.ID))
	require.Zero(t, b.count(`core.callback_owed WHERE subject_id = $1`, cancelled.ID), "not an event that was asked for")
}

// Older figures of what a run has spent never overwrite newer ones, whoever brings them.
func TestSpendIsGuardedByItsVersion(t *testing.T) {
	b := setup(t)
	b.chain("chain", 2)
	ref := b.next(b.create("chain"))
	spent := func(cents, version int64) *store.Spend {
		return &store.Spend{Spent: money.Pico(cents) * money.Dollar / 100, Version: version}
	}
	record := func(s *store.Spend) {
		require.NoError(t, b.store.Submit(t.Context(), &store.Event{Ref: store.OfRun(ref.RunID), Spend: s})[0])
	}
	cost := func() (text string) {
		b.scan(`SELECT trim_scale(cost_usd)::text FROM core.pipeline_run WHERE id = $1`, []any{ref.RunID}, &text)
		return text
	}
	record(spent(12, 5))
	require.Equal(t, "0.12", cost())
	record(spent(7, 4))
	require.Equal(t, "0.12", cost())
	outcome := b.succeed(b.grant(ref), `1`)
	outcome.Spend = spent(30, 9)
	b.submit(outcome)
	require.Equal(t, "0.3", cost())
	late := b.succeed(held{Ref: ref, fence: b.draw()}, `1`)
	late.Spend = spent(31, 10)
	require.Error(t, b.store.Submit(t.Context(), late)[0])
	require.Equal(t, "0.31", cost(), "a refused outcome has cost money all the same")
}
