package llmgateway

import (
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/llmgateway/catalog"
	"pawl.internal/services/llmgateway/economy"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// localBase is the address under which the simulated provider is asked; nothing listens there.
const localBase = "http://simulated/v1"

// account is a provider as requests reach it.
type account struct {
	provider *catalog.Provider
	// models are those that targets name; they matter to a simulated provider alone, which serves no other.
	models []string
	format format
	// keys has at least one element: a provider that needs no key has an empty one.
	keys []*keyed
	// batches is the batch API, which is asked with the first key; nil if there is none.
	batches economy.API
	// transport leads over the network; nil for a provider in this process.
	transport *http.Transport

	mu sync.Mutex
	// turn is the key whose turn is next.
	turn int // guarded by mu
	// empty is until when the account is known to have no money left; zero if it has some.
	empty time.Time // guarded by mu
}

func newAccount(p *catalog.Provider, models []string, clk clock.Clock) (*account, error) {
	f, err := formatOf(p.Format)
	if err != nil {
		return nil, err
	}
	a := &account{provider: p, models: models, format: f}
	base := p.BaseURL
	var transport http.RoundTripper
	if p.Kind == catalog.Simulated {
		base, transport = localBase, provider.Local{Handler: simulated.New(simulated.Config{Models: models}, clk)}
	} else {
		a.transport = provider.NewTransport(p.Timeouts)
		transport = a.transport
	}
	return a, a.open(provider.NewClient(clk, transport, p.Timeouts), base)
}

// open makes what asks with each of the keys.
func (a *account) open(client *provider.Client, base string) error {
	keys := a.provider.Keys
	if len(keys) == 0 {
		keys = []catalog.Key{{}}
	}
	for _, k := range keys {
		s, err := a.format.open(client, base, k.Secret)
		if err != nil {
			return err
		}
		a.keys = append(a.keys, &keyed{id: k.ID, sender: s})
	}
	if a.format.batches == nil {
		return nil
	}
	var err error
	a.batches, err = a.format.batches(client, base, keys[0].Secret)
	return err
}

// serves reports whether the account is what the provider describes.
func (a *account) serves(p *catalog.Provider, models []string) bool {
	return a != nil && reflect.DeepEqual(a.provider, p) && (p.Kind != catalog.Simulated || slices.Equal(a.models, models))
}

// close lets go of connections that nobody uses.
func (a *account) close() {
	if a.transport != nil {
		a.transport.CloseIdleConnections()
	}
}
