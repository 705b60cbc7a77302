package steprunner

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/apijson"
)

// metrics are the figures of one runner. All labels are from closed sets.
type metrics struct {
	steps      *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	running    *prometheus.GaugeVec
	slots      *prometheus.GaugeVec
	claims     *prometheus.CounterVec
	outcomes   *prometheus.CounterVec
	stops      *prometheus.CounterVec
	heartbeats *prometheus.CounterVec
	batches    *prometheus.HistogramVec
	panics     prometheus.Counter
	abandoned  *prometheus.GaugeVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	const prefix = "pawl_step_runner_"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, labels)
	}
	m := &metrics{
		steps: counter("steps_total", "Attempts that ended, by kind of step and how they ended.", "class", "kind", "result"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "step_duration_seconds", Help: "Time from the claim to the outcome, waiting for permits included.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 11),
		}, []string{"class", "kind"}),
		running:    gauge("running_steps", "Steps that are claimed and whose outcomes are not stored.", "class"),
		slots:      gauge("slots", "Steps that may run at once.", "class"),
		abandoned:  gauge("abandoned_steps", "Attempts that go on although they were stopped, and whose slots are used again.", "class"),
		claims:     counter("claims_total", "Claims answered, by answer.", "answer"),
		outcomes:   counter("outcomes_total", "Outcomes answered, by answer.", "answer"),
		stops:      counter("stops_total", "Attempts stopped by the orchestrator, by reason.", "reason"),
		heartbeats: counter("heartbeats_total", "Heartbeats sent, by result.", "result"),
		batches: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "batch_steps", Help: "Steps in one request to the orchestrator.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 7),
		}, []string{"request"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "panics_total", Help: "Attempts that failed by a fault in the program.",
		}),
	}
	registry.MustRegister(m.steps, m.duration, m.running, m.slots, m.claims, m.outcomes, m.stops, m.heartbeats,
		m.batches, m.panics, m.abandoned)
	return m
}

func (m *metrics) ended(class pawlv1.RunClass, kind, result string, took time.Duration) {
	m.steps.WithLabelValues(className(class), kind, result).Inc()
	m.duration.WithLabelValues(className(class), kind).Observe(took.Seconds())
}

func (m *metrics) batch(request string, steps int) {
	m.batches.WithLabelValues(request).Observe(float64(steps))
}

func (m *metrics) claimed(answer systemv1.ClaimStatus) {
	m.claims.WithLabelValues(apijson.WordOf(answer)).Inc()
}

func (m *metrics) completed(answer systemv1.CompleteStatus) {
	m.outcomes.WithLabelValues(apijson.WordOf(answer)).Inc()
}

func (m *metrics) stopped(reason systemv1.StopReason) {
	m.stops.WithLabelValues(apijson.WordOf(reason)).Inc()
}

func (m *metrics) heartbeat(err error) {
	result := "confirmed"
	if err != nil {
		result = "failed"
	}
	m.heartbeats.WithLabelValues(result).Inc()
}

func className(class pawlv1.RunClass) string { return apijson.WordOf(class) }
