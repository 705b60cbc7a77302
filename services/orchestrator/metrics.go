package orchestrator

import (
	"github.com/prometheus/client_golang/prometheus"

	systemv1 "pawl.internal/gen/pawl/system/v1"
)

// metrics counts what is particular to the orchestrator; calls and their times are counted for every service alike.
type metrics struct {
	created  *prometheus.CounterVec
	claims   *prometheus.CounterVec
	outcomes *prometheus.CounterVec
	stops    *prometheus.CounterVec
	notices  *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pawl_orchestrator_" + name, Help: help}, labels)
		registry.MustRegister(c)
		return c
	}
	return &metrics{
		created:  counter("runs_created_total", "Calls of CreateRun, by kind and whether the run was new.", "kind", "result"),
		claims:   counter("claims_total", "Claims of steps, by answer.", "answer"),
		outcomes: counter("outcomes_total", "Outcomes of steps, by kind and answer.", "kind", "answer"),
		stops:    counter("stops_total", "Steps that runners were told to let go of, by reason.", "reason"),
		notices: counter("notices_total",
			"Stream entries and events after a commit: published, or dropped and left to the sweeps.", "kind", "result"),
	}
}

func (m *metrics) runCreated(kind string, replayed bool) {
	result := "new"
	if replayed {
		result = "replayed"
	}
	m.created.WithLabelValues(kind, result).Inc()
}

func (m *metrics) claimed(answer systemv1.ClaimStatus) { m.claims.WithLabelValues(word(answer)).Inc() }

func (m *metrics) completed(o *systemv1.Outcome, answer systemv1.CompleteStatus) {
	m.outcomes.WithLabelValues(outcomeKind(o), word(answer)).Inc()
}

func (m *metrics) stopped(reason systemv1.StopReason) { m.stops.WithLabelValues(word(reason)).Inc() }

// noticed counts n notices of a kind, `entry` or `event`.
func (m *metrics) noticed(kind string, n int, err error) {
	result := "published"
	if err != nil {
		result = "dropped"
	}
	m.notices.WithLabelValues(kind, result).Add(float64(n))
}
