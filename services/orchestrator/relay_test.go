package orchestrator_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/testkit"
)

// asking is a pipeline whose steps ask models.
const asking = `
name: asking
version: v1
input: {type: object}
budget_usd: "0.50"
steps:
  - {name: first, llm: {route: fast, prompt: "${input.text}"}}
`

// told waits until the gateway has heard what is wanted.
func (r *replica) told(what string, wanted func(*gateway) bool) {
	r.t.Helper()
	testkit.Eventually(r.t, patience, func() error {
		r.gateway.mu.Lock()
		defer r.gateway.mu.Unlock()
		if !wanted(r.gateway) {
			return errors.New("the gateway has not heard of " + what)
		}
		return nil
	})
}

func (r *replica) cancel(run uuid.UUID) {
	r.t.Helper()
	_, err := r.client.CancelRun(r.t.Context(), &systemv1.CancelRunRequest{Tenant: tenant, RunId: run.String(), Actor: "person:ann"})
	require.NoError(r.t, err)
}

// While the gateway cannot be told, it is told again; the calls of a run are not aborted before its purse is closed.
func TestGatewayIsToldUntilItConfirms(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(asking)
	refusals := 0
	r.gateway.refuse(func(method string, _ []byte) error {
		if method == "SetSpendGate" && refusals < 2 {
			refusals++
			return status.Error(codes.Internal, "not now")
		}
		return nil
	})
	run := r.create("asking", `{"text": 1}`)
	r.cancel(run)
	r.told("the gate", func(g *gateway) bool { return len(g.gates) == 1 })
	r.told("the cancel", func(g *gateway) bool { return len(g.cancels) == 1 })
	r.eventually(0, `core.spend_gate_owed`)
	r.eventually(0, `core.call_cancel_owed`)
	gate, cancel := r.gateway.gates[0], r.gateway.cancels[0]
	require.Equal(t, run[:], gate.GetRunId())
	require.Equal(t, tenant, gate.GetTenant())
	require.False(t, gate.GetOpen())
	require.EqualValues(t, 1, gate.GetEpoch())
	require.EqualValues(t, 500_000_000_000, gate.GetBudgetPicoUsd())
	require.Equal(t, run[:], cancel.GetRunId())
	require.Empty(t, cancel.GetStep())
	require.Equal(t, 2, refusals)
}

// A run whose calls cannot be aborted does not keep the gateway from hearing of others.
func TestOneRefusalDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(asking)
	refused := r.create("asking", `{"text": 1}`)
	r.gateway.refuse(func(method string, run []byte) error {
		if method == "CancelCalls" && uuid.UUID(run) == refused {
			return status.Error(codes.Internal, "never")
		}
		return nil
	})
	r.cancel(refused)
	for range 10 {
		r.cancel(r.create("asking", `{"text": 1}`))
	}
	r.told("the others", func(g *gateway) bool { return len(g.cancels) >= 10 })
	r.eventually(1, `core.call_cancel_owed`)
	require.Equal(t, 1, r.count(`core.call_cancel_owed WHERE run_id = $1`, refused))
}

// A gate that the gateway refuses for good does not keep it from hearing of the others, however many those are, and stays
// owed; it is told again when the refusal is over.
func TestOneRefusedGateDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	const runs = 20
	r := setup(t)
	r.register(asking)
	away := errors.New("away")
	r.gateway.refuse(func(string, []byte) error { return status.Error(codes.Unavailable, away.Error()) })
	all := make([]uuid.UUID, runs)
	for i := range all {
		all[i] = r.create("asking", `{"text": 1}`)
		r.cancel(all[i])
	}
	refused := map[uuid.UUID]bool{all[0]: true, all[runs/2]: true} // the oldest is among them
	r.eventually(runs, `core.spend_gate_owed`)
	asked := map[uuid.UUID]int{}
	r.gateway.refuse(func(method string, run []byte) error {
		if method == "SetSpendGate" && refused[uuid.UUID(run)] {
			asked[uuid.UUID(run)]++
			return status.Error(codes.InvalidArgument, "never")
		}
		return nil
	})
	r.eventually(len(refused), `core.spend_gate_owed`)
	r.eventually(len(refused), `core.call_cancel_owed`)
	r.told("the others", func(g *gateway) bool { return len(g.gates) == runs-2 && len(g.cancels) == runs-2 })
	for run := range refused {
		require.Equal(t, 1, r.count(`core.spend_gate_owed WHERE run_id = $1`, run))
		require.Equal(t, 1, r.count(`core.call_cancel_owed WHERE run_id = $1`, run), "its calls could begin anew")
	}
	before := 0
	r.told("the refused one", func(*gateway) bool { before = asked[all[0]]; return before > 0 })
	r.told("the refused one again", func(*gateway) bool { return asked[all[0]] > before })
	r.gateway.refuse(nil)
	r.eventually(0, `core.spend_gate_owed`)
	r.eventually(0, `core.call_cancel_owed`)
}

// A run that is opened again may spend again, under a newer epoch.
func TestReopenedRunMaySpendAgain(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(strings.ReplaceAll(asking, "name: first, ", "name: first, retry: {max_attempts: 1}, "))
	n := r.newRunner()
	run := r.create("asking", `{"text": 1}`)
	n.stored(n.take().failed(systemv1.Outcome_FAILURE_CLASS_PERMANENT, "auth"))
	_, err := r.client.RetryRun(t.Context(), &systemv1.RetryRunRequest{Tenant: tenant, RunId: run.String(), Actor: "person:ann", Reason: "again"})
	require.NoError(t, err)
	r.told("the opening", func(g *gateway) bool {
		return slices.ContainsFunc(g.gates, func(g *systemv1.SetSpendGateRequest_Gate) bool { return g.GetOpen() && g.GetEpoch() == 2 })
	})
}

// What a replica leaves behind is told by another.
func TestAnotherReplicaTellsTheGateway(t *testing.T) {
	t.Parallel()
	stores := newStores(t)
	r := stores.replica(t)
	r.register(asking)
	run := r.create("asking", `{"text": 1}`)
	r.exec(`INSERT INTO core.spend_gate_owed (run_id, tenant, epoch, open, owed_at) VALUES ($1, 'acme', 1, false, now())`, run)
	r.told("the gate", func(g *gateway) bool { return len(g.gates) == 1 })
}

// A run that asks no model never bothers the gateway.
func TestGatewayHearsNothingOfRunsWithoutModels(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	r.register(asking)
	r.cancel(r.create("chain", `{"text": 1}`))
	asks := r.create("asking", `{"text": 1}`)
	r.cancel(asks)
	r.told("the cancel", func(g *gateway) bool { return len(g.cancels) == 1 })
	require.Len(t, r.gateway.gates, 1)
	require.Equal(t, asks[:], r.gateway.gates[0].GetRunId())
}
