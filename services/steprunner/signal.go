package steprunner

import (
	"context"
	"sync"
)

// signal is something that happens once.
type signal struct {
	once     sync.Once
	happened chan struct{}
}

func newSignal() *signal { return &signal{happened: make(chan struct{})} }

func (s *signal) send() { s.once.Do(func() { close(s.happened) }) }

func (s *signal) sent() bool {
	select {
	case <-s.happened:
		return true
	default:
		return false
	}
}

// end returns a context that ends when the signal is sent, with the cause, or with ctx.
func (s *signal) end(ctx context.Context, cause error) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-s.happened:
			cancel(cause)
		case <-ctx.Done():
			cancel(nil)
		}
	}()
	return ctx
}

// within waits for the event until ctx ends, and reports whether it happened.
func within(ctx context.Context, event <-chan struct{}) bool {
	select {
	case <-event:
		return true
	case <-ctx.Done():
		return false
	}
}
