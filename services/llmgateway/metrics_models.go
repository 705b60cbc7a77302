package llmgateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pawl.internal/services/llmgateway/catalog"
)

// modelMetrics say how providers, keys and targets are, and which models file is in use. Labels come from that file, and go
// with what it no longer names.
type modelMetrics struct {
	breakers    *prometheus.GaugeVec
	keyRefused  *prometheus.GaugeVec
	modelsValid prometheus.Gauge
	modelsFrom  prometheus.Gauge
}

func newModelMetrics(registry prometheus.Registerer) modelMetrics {
	const prefix = "pawl_llm_gateway_"
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
	}
	m := modelMetrics{
		breakers:   gauges("breaker_open", "1 while a target does not work and is left alone.", "target"),
		keyRefused: gauges("key_refused", "1 while the provider refuses an API key.", "provider", "key_id"),
		modelsValid: gauge("models_file_valid",
			"1 if the models file, as it was read last, is in use; 0 if it is not valid and an earlier one is used."),
		modelsFrom: gauge("models_file_loaded_timestamp_seconds", "When the models in use were read, in seconds since 1970."),
	}
	registry.MustRegister(m.breakers, m.keyRefused, m.modelsValid, m.modelsFrom)
	return m
}

func (m modelMetrics) setBreaker(target string, open bool) {
	m.breakers.WithLabelValues(target).Set(flag(open))
}

func (m modelMetrics) dropBreaker(target string) { m.breakers.DeleteLabelValues(target) }

func (m modelMetrics) setKeyRefused(provider, key string, refused bool) {
	m.keyRefused.WithLabelValues(provider, key).Set(flag(refused))
}

// loadedModels notes that models are in use. Of keys nothing is known then but what their next requests will tell, unless
// their account goes on.
func (m modelMetrics) loadedModels(c *catalog.Catalog, kept func(provider string) bool, now time.Time) {
	m.modelsValid.Set(1)
	m.modelsFrom.Set(float64(now.UnixMilli()) / float64(time.Second.Milliseconds()))
	for _, p := range c.Providers {
		if kept(p.Name) {
			continue
		}
		m.keyRefused.DeletePartialMatch(prometheus.Labels{"provider": p.Name})
		for _, k := range p.Keys {
			m.setKeyRefused(p.Name, k.ID, false)
		}
	}
}

// dropKeys forgets the keys of a provider that is gone.
func (m modelMetrics) dropKeys(provider string) {
	m.keyRefused.DeletePartialMatch(prometheus.Labels{"provider": provider})
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
