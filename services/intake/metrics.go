package intake

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts what is particular to intake; calls and their times are counted for every service alike.
type metrics struct {
	submissions *prometheus.CounterVec
	watchers    prometheus.Gauge
	refusals    *prometheus.CounterVec
	// degraded is 1 while this replica limits submits for itself, backlogStale while the backlog cannot be asked for.
	degraded, backlogStale prometheus.Gauge
	backlog                *prometheus.GaugeVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		submissions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pawl_intake_submissions_total",
			Help: "Runs asked for, by kind (run, job, extract), and batches, and whether they were new or replayed.",
		}, []string{"kind", "result"}),
		watchers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pawl_intake_watchers", Help: "Streams on which a run is being watched, or the results of a batch.",
		}),
	}
	m.ofAdmission()
	registry.MustRegister(m.submissions, m.watchers, m.refusals, m.degraded, m.backlogStale, m.backlog)
	return m
}

// ofAdmission makes the metrics of what is admitted and refused.
func (m *metrics) ofAdmission() {
	m.refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pawl_intake_refusals_total",
		Help: "Submits refused with 429, by the policy in the way (submits, queued-runs, backlog, batch-backlog) and class.",
	}, []string{"policy", "class"})
	m.degraded = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pawl_intake_submit_rate_degraded",
		Help: "1 while Redis does not answer and this replica limits the rate of submits by its own share.",
	})
	m.backlogStale = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pawl_intake_backlog_stale", Help: "1 while the backlog cannot be asked for and the last figures hold.",
	})
	m.backlog = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "pawl_intake_backlog_runs", Help: "Unfinished runs of all tenants, as the orchestrator last told.",
	}, []string{"class"})
}

func (m *metrics) submitted(kind string, replayed bool) {
	result := "new"
	if replayed {
		result = "replayed"
	}
	m.submissions.WithLabelValues(kind, result).Inc()
}
