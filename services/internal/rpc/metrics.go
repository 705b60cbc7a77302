package rpc

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
)

// Metrics counts and times the calls of all servers of a process.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
}

// NewMetrics registers the metrics of RPCs.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pawl_rpc_requests_total", Help: "Calls answered, by gRPC code.",
		}, []string{"service", "method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pawl_rpc_duration_seconds", Help: "Time from a call's arrival to its answer.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}, []string{"service", "method"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pawl_rpc_in_flight_requests", Help: "Calls that are being answered.",
		}, []string{"service"}),
	}
	registry.MustRegister(m.requests, m.duration, m.inFlight)
	return m
}

func (m *Metrics) observe(service string, clk clock.Clock) step {
	inFlight := m.inFlight.WithLabelValues(service)
	return func(ctx context.Context, c *call, next func(context.Context) error) error {
		began := clk.Now()
		inFlight.Inc()
		defer inFlight.Dec()
		err := next(ctx)
		method := strings.TrimPrefix(c.method, "/")
		m.requests.WithLabelValues(service, method, fault.CodeOf(err).String()).Inc()
		m.duration.WithLabelValues(service, method).Observe(clk.Now().Sub(began).Seconds())
		return err
	}
}
