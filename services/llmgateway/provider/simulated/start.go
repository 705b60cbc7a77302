package simulated

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"pawl.internal/services/internal/clock"
)

// Server is a Provider behind a listener of its own. Close ends it.
type Server struct {
	*Provider
	// URL is its address without a path: OpenAI's clients want URL/v1, Anthropic's and Gemini's URL itself.
	URL string

	http  *http.Server
	ended chan struct{} // closed when err is set
	err   error
}

// Start serves a new Provider at an address such as 127.0.0.1:0, whose free port it chooses, until Close.
func Start(ctx context.Context, address string, cfg Config, c clock.Clock) (*Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("the simulated provider cannot listen: %w", err)
	}
	s := &Server{Provider: New(cfg, c), URL: "http://" + listener.Addr().String(), ended: make(chan struct{})}
	s.http = &http.Server{Handler: s.Provider, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(s.ended)
		s.err = s.http.Serve(listener)
	}()
	return s, nil
}

// Close cuts all connections, those with requests in flight too, and returns when nothing listens any more.
func (s *Server) Close() error {
	s.DeleteFaults()
	err := s.http.Close()
	<-s.ended
	return err
}

// Wait returns when the server has ended: nil after Close, or else why it did.
func (s *Server) Wait() error {
	<-s.ended
	if errors.Is(s.err, http.ErrServerClosed) {
		return nil
	}
	return s.err
}
