package compat

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pawl_llm_gateway_endpoint_requests_total",
			Help: "Requests to the OpenAI-compatible endpoint, by path and status (499: the client did not wait).",
		}, []string{"path", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "pawl_llm_gateway_endpoint_duration_seconds",
			Help:    "Time from such a request's arrival to the end of its answer, the wait for a permit included.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 20),
		}, []string{"path"}),
	}
	registry.MustRegister(m.requests, m.duration)
	return m
}

func (m *metrics) observe(path string, status int, took time.Duration) {
	m.requests.WithLabelValues(path, strconv.Itoa(status)).Inc()
	m.duration.WithLabelValues(path).Observe(took.Seconds())
}
