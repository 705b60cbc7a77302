package main

import (
	"context"
	"fmt"

	"pawl.internal/services/cmd/pawl/client"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// simulateCmd serves the simulated provider.
type simulateCmd struct {
	Listen                string            `help:"Address." default:"127.0.0.1:8085"`
	Models                []string          `help:"Names of the models." default:"sim-small,sim-large"`
	APIKeys               []string          `help:"Keys that are accepted; every key if none is named." name:"api-keys"`
	Latency               simulated.Latency `help:"Time before an answer begins: its median, or median~p99." default:"0s"`
	Concurrency           int               `help:"Requests at once, beyond which the answer is 429; 0 for no limit."`
	RequestsPerMinute     int               `help:"Requests a minute, beyond which the answer is 429; 0 for no limit."`
	TokensPerMinute       int               `help:"Tokens a minute, beyond which the answer is 429; 0 for no limit."`
	InputTokensPerMinute  int               `help:"Tokens of prompts a minute, beyond which the answer is 429; 0 for no limit."`
	OutputTokensPerMinute int               `help:"Tokens of answers a minute, beyond which the answer is 429; 0 for no limit."`
	LimitsPerKey          bool              `help:"Every API key has these limits for itself; otherwise all keys are one account."`
	Cache                 bool              `help:"The beginnings of prompts are cached, from 1024 tokens on."`
	BatchStep             simulated.Span    `help:"How long a batch is validated and finalized, each." default:"1s"`
	BatchItem             simulated.Span    `help:"How long each request of a batch takes." default:"10ms"`
	BatchExpire           simulated.Span    `help:"After how long a batch expires." default:"24h"`
	Seed                  uint64            `help:"Decides the latencies that are drawn."`
	Remember              int               `help:"How many requests are remembered one by one." default:"10000"`
}

// Help is what --help says beside the flags.
func (c *simulateCmd) Help() string {
	return "It speaks the formats of OpenAI, Anthropic and Gemini, and fails on request. Faults are asked for in a model's name, as\n" +
		"sim-small?429=1s*1,500*2, with the kind, what it takes after = and how many tries it hits after *; or with POST\n" +
		"/admin/faults, as {\"kind\": \"429\", \"argument\": \"1s\", \"count\": 1}. The kinds are:\n\n" + simulated.FaultHelp() + "\n" +
		"GET /admin/requests tells what it was asked, GET /admin/admissions when, PUT /admin/limits changes its limits, PUT\n" +
		"/admin/cache switches its cache, and /admin/batches steers its batches. This part has no authentication."
}

func (c *simulateCmd) config() simulated.Config {
	return simulated.Config{
		Models: c.Models, APIKeys: c.APIKeys, Latency: c.Latency, Seed: c.Seed, Cache: c.Cache, Remember: c.Remember,
		Batches: simulated.BatchPace{Step: c.BatchStep, Item: c.BatchItem, Expire: c.BatchExpire},
		Limits: simulated.Limits{
			Concurrency: c.Concurrency, RequestsPerMinute: c.RequestsPerMinute, TokensPerMinute: c.TokensPerMinute,
			InputTokensPerMinute: c.InputTokensPerMinute, OutputTokensPerMinute: c.OutputTokensPerMinute, PerKey: c.LimitsPerKey,
		},
	}
}

// Run serves until ctx ends.
func (c *simulateCmd) Run(ctx context.Context, s client.Streams) error {
	server, err := simulated.Start(ctx, c.Listen, c.config(), clock.System())
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	fmt.Fprintf(s.Out, "the simulated provider listens on %s/v1\n", server.URL)
	fmt.Fprintf(s.Out, "base addresses: OpenAI %[1]s/v1, Anthropic %[1]s, Gemini %[1]s; its administration is at %[1]s/admin\n", server.URL)
	return server.Wait()
}
