package llmgateway

import (
	"fmt"
	"net/http"
	"sync"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/llmgateway/catalog"
	"pawl.internal/services/llmgateway/economy"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// localBase is the address under which the simulated provider is asked; nothing listens there.
const localBase = "http://simulated/v1"

// models is everything that follows from one catalogue. It never changes; another models file makes other models.
type models struct {
	catalog  *catalog.Catalog
	prices   price.List
	accounts map[string]*account
	// transports are closed when the models are replaced and nobody uses them any more.
	transports []*http.Transport
}

// account is a provider as requests reach it.
type account struct {
	format format
	// keys has at least one element: a provider that needs no key has an empty one.
	keys []*keyed
	// batches is the batch API, which is asked with the first key; nil if there is none.
	batches economy.API
}

// keyed is one key of an account, and what asks with it.
type keyed struct {
	id     string
	sender sender
}

// newModels makes a client for each key of each provider. Prices are the catalogue's, with their ids.
func newModels(c *catalog.Catalog, prices []price.Row, clk clock.Clock) (*models, error) {
	m := &models{catalog: c, prices: price.NewList(prices), accounts: map[string]*account{}}
	for _, p := range c.Providers {
		a, err := m.open(p, clk)
		if err != nil {
			return nil, fmt.Errorf("provider %s: %w", p.Name, err)
		}
		m.accounts[p.Name] = a
	}
	return m, nil
}

func (m *models) open(p *catalog.Provider, clk clock.Clock) (*account, error) {
	f, err := formatOf(p.Format)
	if err != nil {
		return nil, err
	}
	client := provider.NewClient(clk, m.transport(p, clk), p.Timeouts)
	keys := p.Keys
	if len(keys) == 0 {
		keys = []catalog.Key{{}}
	}
	a := &account{format: f}
	for _, k := range keys {
		s, err := f.open(client, baseOf(p), k.Secret)
		if err != nil {
			return nil, err
		}
		a.keys = append(a.keys, &keyed{id: k.ID, sender: s})
	}
	if f.batches != nil {
		a.batches, err = f.batches(client, baseOf(p), keys[0].Secret)
	}
	return a, err
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

// shelf holds the models of now, for those who begin, and those of before as long as calls use them.
type shelf struct {
	mu  sync.Mutex
	now *models // guarded by mu
	// users counts the calls that use models, of now or of before; those of before are closed with the last one.
	users map[*models]int // guarded by mu
}

func newShelf() *shelf { return &shelf{users: map[*models]int{}} }

// current returns the models of now, for looking things up.
func (s *shelf) current() *models {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// take returns the models of now for a call, which must put them back.
func (s *shelf) take() *models {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[s.now]++
	return s.now
}

// putBack ends a call's use of the models.
func (s *shelf) putBack(m *models) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[m]--
	s.tidy(m)
}

// replace makes the models those of now.
func (s *shelf) replace(next *models) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.now
	s.now = next
	if before != nil {
		s.tidy(before)
	}
}

// close is for the end, when calls have ended.
func (s *shelf) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.users {
		m.close()
	}
	s.now.close()
}

// tidy closes models that are not those of now and that nobody uses. s.mu is held.
func (s *shelf) tidy(m *models) {
	if s.users[m] > 0 {
		return
	}
	delete(s.users, m)
	if m != s.now {
		m.close()
	}
}
