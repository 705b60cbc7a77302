package llmgateway

import (
	"sync"

	"pawl.internal/services/llmgateway/provider"
)

// speech is what the model has said of an answer that is still on its way. It is kept from the beginning, so that whoever
// joins late hears it all, and listeners that are slow hold nobody up.
type speech struct {
	mu     sync.Mutex
	wanted bool             // guarded by mu; somebody listens
	model  string           // guarded by mu; who is asked
	pieces []provider.Delta // guarded by mu
	more   chan struct{}    // guarded by mu; closed and replaced when a piece comes
}

func newSpeech() *speech { return &speech{more: make(chan struct{})} }

// want notes that somebody listens. A request that is under way already is not changed by that.
func (s *speech) want() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = true
}

// begin notes which model is asked, and reports whether it is to be heard.
func (s *speech) begin(model string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model = model
	return s.wanted
}

// hear takes the next piece.
func (s *speech) hear(d provider.Delta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pieces = append(s.pieces, d)
	close(s.more)
	s.more = make(chan struct{})
}

// begun reports whether anything was said. From then on no other model may be asked: what was told cannot be taken back.
func (s *speech) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pieces) > 0
}

// from returns what was said from the n-th piece on, by which model, and what is closed when there is more.
func (s *speech) from(n int) (pieces []provider.Delta, model string, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pieces[min(n, len(s.pieces)):len(s.pieces):len(s.pieces)], s.model, s.more
}
