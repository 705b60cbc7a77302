package llmgateway

import (
	"context"

	"pawl.internal/services/llmgateway/provider"
)

// BreakProvider makes every request to the provider panic, as a fault in the reading of its answers would.
func BreakProvider(s *Service, name string) {
	s.models.current().accounts[name].keys[0].sender = panicking{}
}

type panicking struct{}

func (panicking) Check(provider.Request) error { return nil }

func (panicking) Send(context.Context, provider.Request) provider.Exchange {
	panic("a fault in the program")
}
