package chaos

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
)

// lease is that of step-runners and gateways in this suite: short, so that deaths are noticed soon.
const lease = 2 * time.Second

// start runs a fleet for faults, with the suite's pipelines, and a provider that takes its time.
func start(t *testing.T, cfg harness.FleetConfig) *harness.Fleet {
	t.Helper()
	if cfg.Provider == nil {
		cfg.Provider = harness.StartProvider(t, "--latency", "150ms~300ms")
	}
	cfg.Env = append([]string{
		"PAWL_ORCHESTRATOR_LEASE=" + lease.String(), "PAWL_LLM_GATEWAY_LEASE=" + lease.String(),
	}, cfg.Env...)
	f := harness.StartFleet(t, cfg)
	register(t, f, mix()...)
	return f
}

// fault is something that happens to a system, and what it may lead to.
type fault struct {
	// name says it in the table.
	name string
	// strike lets it happen, and returns when it is over.
	strike func(*testing.T, *harness.Fleet)
	// pace is the time between two submits; 0 for defaultPace.
	pace time.Duration
	// doubts says that requests may have been sent whose fate nobody knows: gateways died, or their way to the provider was
	// cut. Each is booked, and may be sent once more (on_ambiguous: retry).
	doubts bool
}

// endure submits runs all the while, lets the fault happen among them, and judges what is left when all is over.
func endure(t *testing.T, f *harness.Fleet, what fault) verdict {
	t.Helper()
	before := f.Provider.Report()
	l := submit(t, f, what.name, what.pace)
	l.awaitAccepted(warmUp)
	awaitCalls(t, f)
	what.strike(t, f)
	struck := l.count()
	healed := now(t, f)
	l.awaitAccepted(min(struck+warmUp, mostRuns))
	runs := l.finish()
	require.GreaterOrEqual(t, len(runs), leastRuns)
	v := judge(t, f, before, runs, what)
	v.recovery = recovery(t, f, healed, runs[:struck])
	suite.add(v)
	v.require(t)
	return v
}

// awaitCalls waits until a call of a model is in flight.
func awaitCalls(t *testing.T, f *harness.Fleet) {
	t.Helper()
	harness.Eventually(t, func() error {
		if f.Provider.Report().InFlight == 0 {
			return errors.New("no call is in flight")
		}
		return nil
	})
}

// now is the time by PostgreSQL's clock, by which all times are that a fleet writes down.
func now(t *testing.T, f *harness.Fleet) (at time.Time) {
	t.Helper()
	harness.Eventually(t, func() error { return f.API.DB.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&at) })
	return at
}

// recovery is how long after the end of a fault the last of the runs ended that had been accepted until then.
func recovery(t *testing.T, f *harness.Fleet, healed time.Time, runs []string) time.Duration {
	t.Helper()
	var last time.Time
	harness.Eventually(t, func() error {
		return f.API.DB.QueryRow(t.Context(), "SELECT max(finished_at) FROM core.pipeline_run WHERE id = ANY($1)", runs).Scan(&last)
	})
	return max(0, last.Sub(healed))
}
