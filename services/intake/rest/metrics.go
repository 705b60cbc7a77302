package rest

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// noRoute is the label of requests whose path matched nothing: paths themselves are unbounded.
const noRoute = "none"

type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pawl_intake_http_requests_total", Help: "REST requests answered, by route and status.",
		}, []string{"method", "route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "pawl_intake_http_duration_seconds",
			Help:    "Time from a REST request's arrival to its answer; for a watch, to its end.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}, []string{"method", "route"}),
	}
	registry.MustRegister(m.requests, m.duration)
	return m
}

func (m *metrics) observe(method, route string, status int, took time.Duration) {
	if route == "" {
		route = noRoute
	}
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodHead:
	default:
		method = "other"
	}
	m.requests.WithLabelValues(method, route, strconv.Itoa(status)).Inc()
	m.duration.WithLabelValues(method, route).Observe(took.Seconds())
}
