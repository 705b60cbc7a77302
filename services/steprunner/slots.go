package steprunner

import (
	"context"
	"sync"
)

// slots counts how many steps of a lane may still begin. One goroutine takes, any may give back.
type slots struct {
	size  int
	freed chan struct{} // holds a token when slots may have become free

	mu   sync.Mutex
	free int // guarded by mu
}

func newSlots(size int) *slots {
	return &slots{size: size, free: size, freed: make(chan struct{}, 1)}
}

// takeAll waits until at least one slot is free and takes all that are.
func (s *slots) takeAll(ctx context.Context) (int, error) {
	for {
		if n := s.drain(); n > 0 {
			return n, nil
		}
		select {
		case <-s.freed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (s *slots) drain() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.free
	s.free = 0
	return n
}

// give returns n slots.
func (s *slots) give(n int) {
	s.mu.Lock()
	s.free += n
	s.mu.Unlock()
	select {
	case s.freed <- struct{}{}:
	default:
	}
}
