package llmgateway

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/llmgateway/catalog"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/provider/openai"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// localBase is the address under which the simulated provider is asked; nothing listens there.
const localBase = "http://simulated/v1"

// sender asks a provider once.
type sender interface {
	Send(ctx context.Context, r provider.Request) provider.Exchange
}

// models is everything that follows from the catalogue.
type models struct {
	catalog *catalog.Catalog
	prices  price.List
	senders map[string]sender
	// transports are closed at the end.
	transports []*http.Transport
}

// newModels makes a client for each provider. Prices are the catalogue's, with their ids.
func newModels(c *catalog.Catalog, prices []price.Row, clk clock.Clock) (*models, error) {
	m := &models{catalog: c, prices: price.NewList(prices), senders: map[string]sender{}}
	for _, p := range c.Providers {
		client, err := openai.New(provider.NewClient(clk, m.transport(p, clk), p.Timeouts), baseOf(p), p.Key)
		if err != nil {
			return nil, fmt.Errorf("provider %s: %w", p.Name, err)
		}
		m.senders[p.Name] = client
	}
	return m, nil
}

// transport leads to a provider: over the network, or into this process.
func (m *models) transport(p *catalog.Provider, clk clock.Clock) http.RoundTripper {
	if p.Kind == catalog.Simulated {
		return provider.Local{Handler: simulated.New(simulated.Config{Models: m.catalog.Models(p.Name)}, clk)}
	}
	t := provider.NewTransport(p.Timeouts)
	m.transports = append(m.transports, t)
	return t
}

func baseOf(p *catalog.Provider) string {
	if p.Kind == catalog.Simulated {
		return localBase
	}
	return p.BaseURL
}

func (m *models) close() {
	for _, t := range m.transports {
		t.CloseIdleConnections()
	}
}

// read says what an exchange means, live or stored.
func read(format string, x provider.Exchange, now time.Time) (provider.Reading, error) {
	if format != openai.Format {
		return provider.Reading{}, fmt.Errorf("answers of the format %q cannot be read by this build", format)
	}
	return openai.Read(x, now), nil
}
