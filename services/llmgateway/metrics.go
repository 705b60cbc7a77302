package llmgateway

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/llmgateway/failure"
	"pawl.internal/services/llmgateway/permit"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/store"
)

// metrics counts what is particular to the gateway. Providers and models are those of the models file.
type metrics struct {
	modelMetrics

	calls    *prometheus.CounterVec
	tries    *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	tokens   *prometheus.CounterVec
	cost     *prometheus.CounterVec
	waits    *prometheus.HistogramVec
	degraded *prometheus.GaugeVec
	inFlight prometheus.Gauge
	lane     *prometheus.GaugeVec
	unstored prometheus.Gauge
	orphans  prometheus.Counter
	panics   prometheus.Counter
	unpriced *prometheus.CounterVec
	budgets  *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	const prefix = "pawl_llm_gateway_"
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	}
	histograms := func(name, help string, first float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + name, Help: help, Buckets: prometheus.ExponentialBuckets(first, 2, 16),
		}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
	}
	m := &metrics{
		modelMetrics: newModelMetrics(registry),
		calls:        counters("calls_total", "Questions that were answered or given up, by result.", "result"),
		tries:        counters("tries_total", "Requests to providers, by reason of their failure (ok for none).", "provider", "model", "reason"),
		latency:      histograms("try_duration_seconds", "Time from sending a request to its whole answer.", 0.001, "provider", "model"),
		tokens:       counters("tokens_total", "Tokens that were paid, by kind.", "provider", "model", "kind"),
		cost:         counters("cost_usd_total", "Money spent; for the exact amount see the call log.", "provider", "model"),
		waits:        histograms("permit_wait_seconds", "Time that requests waited for a permit.", 0.0001, "group", "class"),
		degraded: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "permit_degraded", Help: "1 while Redis is away and the group is limited to this replica's share.",
		}, []string{"group"}),
		lane: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "economy_items", Help: "Requests in the economy lane, over all replicas, by state.",
		}, []string{"provider", "state"}),
		inFlight: gauge("in_flight_calls", "Questions that are being answered."),
		unstored: gauge("unstored_answers", "Answers that are kept in memory because they cannot be stored yet."),
		orphans: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "orphans_total", Help: "Requests of dead gateways that were found in flight.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: prefix + "panics_total", Help: "Calls that failed by a fault in the program.",
		}),
		unpriced: counters("unpriced_total", "Requests that have used what has no price, so that their cost is unknown.", "provider", "model"),
		budgets:  counters("budgets_passed_total", "Times that a tenant's month or a batch was seen to have used so many percent of its budget.", "kind", "percent"),
	}
	registry.MustRegister(
		m.calls, m.tries, m.latency, m.tokens, m.cost, m.waits, m.degraded, m.lane, m.inFlight, m.unstored, m.orphans, m.panics,
		m.unpriced, m.budgets,
	)
	return m
}

// tried counts a request that was settled.
func (m *metrics) tried(provider, model string, f failure.Failure, u price.Usage, cost money.Pico, latency time.Duration) {
	model = modelName(model)
	reason := "ok"
	if f.Class != failure.None {
		reason = f.Reason
	}
	m.tries.WithLabelValues(provider, model, reason).Inc()
	m.latency.WithLabelValues(provider, model).Observe(latency.Seconds())
	m.cost.WithLabelValues(provider, model).Add(float64(cost) / float64(money.Dollar))
	for kind, n := range map[string]int64{
		"input": u.Input, "cached_input": u.CachedInput, "cache_write": u.CacheWrite, "cache_write_1h": u.CacheWrite1h,
		"output": u.Output, "reasoning": u.Reasoning,
	} {
		m.tokens.WithLabelValues(provider, model, kind).Add(float64(n))
	}
}

// permitCollector reads how limit groups stand whenever metrics are collected: groups come and go.
type permitCollector struct{ permits *permit.Pool }

// What permitCollector collects.
func permitGauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("pawl_llm_gateway_permit_"+name, help, append([]string{"group"}, labels...), nil)
}

func (permitCollector) ceiling() *prometheus.Desc {
	return permitGauge("ceiling_requests", "Requests that may be in flight now, over all replicas; 0 without a limit.")
}

func (permitCollector) factor() *prometheus.Desc {
	return permitGauge("limit_ratio", "The part of the configured limits that is used, as the provider's answers have taught.")
}

func (permitCollector) inFlight() *prometheus.Desc {
	return permitGauge("in_flight_requests", "Permits that are held, over all replicas.")
}

func (permitCollector) waiting() *prometheus.Desc {
	return permitGauge("waiting_calls", "Calls of this replica that wait for a permit.", "class")
}

func (permitCollector) paused() *prometheus.Desc {
	return permitGauge("paused_seconds", "How long the group still pauses because the provider asked for it.")
}

// Describe lists the metrics.
func (c permitCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.ceiling(), c.factor(), c.inFlight(), c.waiting(), c.paused()} {
		out <- d
	}
}

// Collect reads them.
func (c permitCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for group, s := range c.permits.States() {
		gauge(c.ceiling(), float64(s.Ceiling), group)
		gauge(c.factor(), s.Factor, group)
		gauge(c.inFlight(), float64(s.InFlight), group)
		gauge(c.waiting(), float64(s.Waiting[permit.Interactive]), group, "interactive")
		gauge(c.waiting(), float64(s.Waiting[permit.Batch]), group, "batch")
		gauge(c.paused(), s.Paused.Seconds(), group)
	}
}

// modelName is the model without what follows in the names of simulated ones: their faults.
func modelName(model string) string {
	name, _, _ := strings.Cut(model, "?")
	return name
}

func (m *metrics) passed(kind store.BudgetKind, percent int) {
	m.budgets.WithLabelValues(string(kind), strconv.Itoa(percent)).Inc()
}

func (m *metrics) setDegraded(group string, degraded bool) {
	value := 0.0
	if degraded {
		value = 1
	}
	m.degraded.WithLabelValues(group).Set(value)
}

// countLane sets how many requests are in which state of the economy lane.
func (m *metrics) countLane(counts []store.LaneCount) {
	m.lane.Reset()
	for _, c := range counts {
		m.lane.WithLabelValues(c.Provider, c.State).Set(float64(c.Items))
	}
}
