package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"pawl.internal/services/cmd/pawl/client"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// simulateCmd serves the simulated provider.
type simulateCmd struct {
	Listen            string            `help:"Address." default:"127.0.0.1:8085"`
	Models            []string          `help:"Names of the models." default:"sim-small,sim-large"`
	APIKeys           []string          `help:"Keys that are accepted; every key if none is named." name:"api-keys"`
	Latency           simulated.Latency `help:"Time before an answer begins: its median, or median~p99." default:"0s"`
	Concurrency       int               `help:"Requests at once, beyond which the answer is 429; 0 for no limit."`
	RequestsPerMinute int               `help:"Requests a minute, beyond which the answer is 429; 0 for no limit."`
	TokensPerMinute   int               `help:"Tokens a minute, beyond which the answer is 429; 0 for no limit."`
	Seed              uint64            `help:"Decides the latencies that are drawn."`
}

func (c *simulateCmd) config() simulated.Config {
	return simulated.Config{
		Models: c.Models, APIKeys: c.APIKeys, Latency: c.Latency, Seed: c.Seed,
		Limits: simulated.Limits{
			Concurrency: c.Concurrency, RequestsPerMinute: c.RequestsPerMinute, TokensPerMinute: c.TokensPerMinute,
		},
	}
}

// Run serves until ctx ends.
func (c *simulateCmd) Run(ctx context.Context, s client.Streams) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("the simulated provider cannot listen: %w", err)
	}
	server := &http.Server{Handler: simulated.New(c.config(), clock.System()), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	fmt.Fprintf(s.Out, "the simulated provider listens on http://%s/v1\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
