package intake

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts what is particular to intake; calls and their times are counted for every service alike.
type metrics struct {
	submissions *prometheus.CounterVec
	watchers    prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		submissions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pawl_intake_submissions_total",
			Help: "Runs asked for, by kind (run, job, extract) and whether they were new or replayed.",
		}, []string{"kind", "result"}),
		watchers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pawl_intake_watchers", Help: "Streams on which a run is being watched.",
		}),
	}
	registry.MustRegister(m.submissions, m.watchers)
	return m
}

func (m *metrics) submitted(kind string, replayed bool) {
	result := "new"
	if replayed {
		result = "replayed"
	}
	m.submissions.WithLabelValues(kind, result).Inc()
}
