package llmgateway

import (
	"context"
	"fmt"
	"time"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/llmgateway/economy"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/provider/anthropic"
	"pawl.internal/services/llmgateway/provider/gemini"
	"pawl.internal/services/llmgateway/provider/openai"
)

// sender asks a provider once.
type sender interface {
	// Check returns why the question cannot be asked in the provider's format, before anything is spent on it.
	Check(r provider.Request) error
	Send(ctx context.Context, r provider.Request) provider.Exchange
}

// format is a form of requests and answers. Its name is stored with every answer, so that the answer can be read again when
// no provider speaks it any more.
type format struct {
	name string
	// open makes what asks the API at base with the key, which may be empty.
	open func(client *provider.Client, base string, key config.Secret) (sender, error)
	// read says what an exchange means that was read to its end, live or stored: of a stored one there is no header.
	read func(x provider.Exchange, now time.Time) provider.Reading
	// batches makes what asks the batch API at base; nil if the form has none.
	batches func(client *provider.Client, base string, key config.Secret) (economy.API, error)
}

// formats are all forms that this build speaks. The catalogue names them by catalog.Provider.Format.
func formats() []format {
	return []format{
		{
			name: openai.Format, read: openai.Read,
			open: func(client *provider.Client, base string, key config.Secret) (sender, error) {
				return openai.New(client, base, key)
			},
			batches: func(client *provider.Client, base string, key config.Secret) (economy.API, error) {
				return openai.NewBatches(client, base, key)
			},
		},
		{
			name: anthropic.Format, read: anthropic.Read,
			open: func(client *provider.Client, base string, key config.Secret) (sender, error) {
				return anthropic.New(client, base, key)
			},
			batches: func(client *provider.Client, base string, key config.Secret) (economy.API, error) {
				return anthropic.NewBatches(client, base, key)
			},
		},
		{
			name: gemini.Format, read: gemini.Read,
			open: func(client *provider.Client, base string, key config.Secret) (sender, error) {
				return gemini.New(client, base, key)
			},
		},
	}
}

// formatOf finds a form by its name.
func formatOf(name string) (format, error) {
	for _, f := range formats() {
		if f.name == name {
			return f, nil
		}
	}
	return format{}, fmt.Errorf("answers of the format %q cannot be read by this build", name)
}

// read says what an exchange means, live or stored.
func read(name string, x provider.Exchange, now time.Time) (provider.Reading, error) {
	f, err := formatOf(name)
	if err != nil {
		return provider.Reading{}, err
	}
	return f.read(x, now), nil
}
