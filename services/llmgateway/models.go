package llmgateway

import (
	"fmt"
	"sync"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/llmgateway/catalog"
	"pawl.internal/services/llmgateway/price"
)

// models is everything that follows from one catalogue. It never changes; another models file makes other models.
type models struct {
	catalog  *catalog.Catalog
	prices   price.List
	accounts map[string]*account
}

// newModels makes an account for each provider. Prices are the catalogue's, with their ids. Of the models before, nil if there
// are none, those accounts go on that nothing has changed for, with their connections and all they have learned.
func newModels(c *catalog.Catalog, prices []price.Row, clk clock.Clock, before *models) (*models, error) {
	m := &models{catalog: c, prices: price.NewList(prices), accounts: map[string]*account{}}
	for _, p := range c.Providers {
		if before != nil && before.accounts[p.Name].serves(p, c.Models(p.Name)) {
			m.accounts[p.Name] = before.accounts[p.Name]
			continue
		}
		a, err := newAccount(p, c.Models(p.Name), clk)
		if err != nil {
			return nil, fmt.Errorf("provider %s: %w", p.Name, err)
		}
		m.accounts[p.Name] = a
	}
	return m, nil
}

// has reports whether the account is one of these models'.
func (m *models) has(a *account) bool { return m != nil && m.accounts[a.provider.Name] == a }

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

func (m *models) close() {
	for _, a := range m.accounts {
		a.close()
	}
}

// tidy closes what only these models have, if nobody uses them any more. s.mu is held.
func (s *shelf) tidy(m *models) {
	if s.users[m] > 0 {
		return
	}
	delete(s.users, m)
	for _, a := range m.accounts {
		if !s.uses(a) {
			a.close()
		}
	}
}

// uses reports whether models of now, or of before that calls still use, have the account. s.mu is held.
func (s *shelf) uses(a *account) bool {
	if s.now.has(a) {
		return true
	}
	for m := range s.users {
		if m.has(a) {
			return true
		}
	}
	return false
}
