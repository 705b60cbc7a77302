// Package catalog knows which models there are: the providers and how to reach them, the routes and their targets, the
// limits that targets share, and what everything costs. It reads them from the models file, or from the environment when
// there is none. A Catalog never changes; reading another file makes another Catalog.
package catalog

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/provider"
)

// Kind is the format that a provider speaks.
type Kind string

// The kinds of providers.
const (
	// OpenAI is the chat completions format, whoever serves it.
	OpenAI Kind = "openai"
	// Anthropic is the Messages format.
	Anthropic Kind = "anthropic"
	// Gemini is the generateContent format.
	Gemini Kind = "gemini"
	// Simulated answers in this process, without a network and without a model.
	Simulated Kind = "simulated"
)

// Condition says after which failure a target is tried that is not tried otherwise.
type Condition string

// The conditions.
const (
	// ContextTooLong: a target before it could not take so long a request.
	ContextTooLong Condition = "context_too_long"
	// Timeout: a target before it did not answer in time, so that the request's fate is unknown.
	Timeout Condition = "timeout"
)

// Key is an API key. ID names where it came from; it stands in logs and in the call log, the key itself nowhere.
type Key struct {
	ID     string
	Secret config.Secret
}

// Provider is a server of models, reached with one or several keys of one account.
type Provider struct {
	Name string
	Kind Kind
	// Format is the form of its requests and answers: the kind's name, which a simulated one takes from those it can play.
	Format string
	// BaseURL is the address of the API; empty for a simulated one. Formats that one company serves have its address if the
	// file names none.
	BaseURL string
	// Keys are the API keys in the order of the file; none for servers that need none.
	Keys []Key
	// Group is the limit group that its requests count toward.
	Group    string
	Timeouts provider.Timeouts
	// Breaker says when its targets are left alone.
	Breaker Breaker
}

// Breaker says when a target is left alone, and how long at first.
type Breaker struct {
	// Failures is how many requests must have failed within Window, and at least half of all.
	Failures int
	Window   time.Duration
	Pause    time.Duration
}

// or fills in what is not set.
func (b Breaker) or(other Breaker) Breaker {
	return Breaker{
		Failures: cmp.Or(b.Failures, other.Failures), Window: cmp.Or(b.Window, other.Window), Pause: cmp.Or(b.Pause, other.Pause),
	}
}

// Group is a limit that one or several providers share, as the account does that they are charged to.
type Group struct {
	Name string
	// Concurrency is how many requests may be in flight, over all replicas.
	Concurrency int
	// These are per minute, over all replicas; 0 for no limit. Tokens are input and output together.
	Requests, Tokens, InputTokens, OutputTokens int64
	// InteractiveReserve is the share of everything that batch calls never use, and BatchFloor the share that they get even
	// when interactive calls would take all.
	InteractiveReserve, BatchFloor float64
	// Adaptive lets the limits fall when the provider says that we ask too fast.
	Adaptive bool
}

// defaultGroup is the limit of a group for which the file has none.
func defaultGroup(name string) Group {
	return Group{Name: name, Concurrency: defaultConcurrency, BatchFloor: defaultBatchFloor, Adaptive: true}
}

// Target is one model of one provider.
type Target struct {
	Provider *Provider
	Model    string
	// MaxOutputTokens bounds answers for which the question sets no bound.
	MaxOutputTokens int64
	// MaxInputTokens is how much of the question this target is asked at most, about; 0 for all of it.
	MaxInputTokens int64
	// Weight is its share of the questions among the targets of the same Rank; 0 where the order alone counts.
	Weight, Rank int
	// Match holds the failures that lead here; empty for a target of the ordinary order.
	Match []Condition
}

// Name is "provider/model".
func (t Target) Name() string { return t.Provider.Name + "/" + t.Model }

// Simulates reports whether the model's name goes on with faults that a simulated one is to have.
func (t Target) Simulates() bool { return strings.Contains(t.Model, "?") }

// same reports whether the other target asks the same model in the same way.
func (t Target) same(other Target) bool {
	return t.Name() == other.Name() && t.MaxInputTokens == other.MaxInputTokens && slices.Equal(t.Match, other.Match)
}

// MatchesOn reports whether the failure leads to this target.
func (t Target) MatchesOn(c Condition) bool { return slices.Contains(t.Match, c) }

// Catalog is everything that the models file says.
type Catalog struct {
	// Providers, in the order of the file.
	Providers []*Provider
	// Groups holds every group that a provider names, by name.
	Groups map[string]Group
	// Prices are the rows as they were read.
	Prices []price.Row
	// UnpricedReserve is what a request reserves, and is booked with, whose price is not known; nil if none may be sent where a
	// budget holds.
	UnpricedReserve *money.Pico
	// Warnings are for the log: what was read and is most likely not what was meant.
	Warnings []string

	routes map[string]Route
}

// Route returns what a name stands for: a route, or else the one target whose model has that name. The name
// of a simulated model may go on with "?" and the faults that it is to have.
func (c *Catalog) Route(name string) (Route, bool) {
	if r, ok := c.routes[name]; ok {
		return r, true
	}
	model, _, _ := strings.Cut(name, "?")
	for _, route := range c.RouteNames() {
		for _, t := range c.routes[route].Targets {
			if t.Model == name || t.Model == model && t.Provider.Kind == Simulated {
				// Asked for by name, it is tried first.
				t.Model, t.Match, t.Weight, t.Rank, t.MaxInputTokens = name, nil, 0, 0, 0
				return Route{Name: name, Targets: []Target{t}}, true
			}
		}
	}
	return Route{}, false
}

// Targets returns every target that a route names, each once, in the order of their routes.
func (c *Catalog) Targets() []Target {
	var all []Target
	for _, name := range c.RouteNames() {
		for _, t := range c.routes[name].Targets {
			if !slices.ContainsFunc(all, func(other Target) bool { return other.Name() == t.Name() }) {
				all = append(all, t)
			}
		}
	}
	return all
}

// Models returns the models of a provider that targets name, without the faults that simulated ones may carry.
func (c *Catalog) Models(provider string) []string {
	var names []string
	for _, route := range c.RouteNames() {
		for _, t := range c.routes[route].Targets {
			if name, _, _ := strings.Cut(t.Model, "?"); t.Provider.Name == provider && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// RouteNames returns the names of the routes in alphabetical order.
func (c *Catalog) RouteNames() []string {
	names := make([]string, 0, len(c.routes))
	for name := range c.routes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
