package orchestrator

import (
	"github.com/prometheus/client_golang/prometheus"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/orchestrator/machine"
)

// metrics counts what is particular to the orchestrator; calls and their times are counted for every service alike.
type metrics struct {
	created  *prometheus.CounterVec
	claims   *prometheus.CounterVec
	outcomes *prometheus.CounterVec
	stops    *prometheus.CounterVec
	notices  *prometheus.CounterVec
	sweeps   *prometheus.CounterVec
	dispatch *prometheus.GaugeVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pawl_orchestrator_" + name, Help: help}, labels)
		registry.MustRegister(c)
		return c
	}
	dispatch := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "pawl_orchestrator_dispatched_steps", Help: "Steps that are queued or running, by class.",
	}, []string{"class"})
	registry.MustRegister(dispatch)
	return &metrics{
		created:  counter("runs_created_total", "Calls of CreateRun, by kind and whether the run was new.", "kind", "result"),
		claims:   counter("claims_total", "Claims of steps, by answer.", "answer"),
		outcomes: counter("outcomes_total", "Outcomes of steps, by kind and answer.", "kind", "answer"),
		stops:    counter("stops_total", "Steps that runners were told to let go of, by reason.", "reason"),
		notices: counter("notices_total",
			"Stream entries and events after a commit: published, or dropped and left to the sweeps.", "kind", "result"),
		sweeps:   counter("swept_total", "Events that a sweep had to make, by what it looked at.", "sweep"),
		dispatch: dispatch,
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

// swept counts n events that a sweep has made.
func (m *metrics) swept(sweep string, n int) { m.sweeps.WithLabelValues(sweep).Add(float64(n)) }

// dispatched shows how many steps of a class are queued or running.
func (m *metrics) dispatched(class machine.Class, n int) {
	m.dispatch.WithLabelValues(string(class)).Set(float64(n))
}
