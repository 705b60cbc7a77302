package catalog

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/provider/openai"
)

// OpenAIURL is the address of OpenAI's own API.
const OpenAIURL = "https://api.openai.com/v1"

// The name of the route and the provider that the environment makes.
const (
	defaultRoute   = "default"
	openAIProvider = "openai"
)

// simulatedFile is the models file of a system to which nobody has given a model.
//
//go:embed simulated.yaml
var simulatedFile []byte

// knownFile has dated prices of OpenAI's own models, so that a key alone is enough to begin.
//
//go:embed openai.yaml
var knownFile []byte

// NewSimulated returns the catalogue of the simulated provider alone.
func NewSimulated(now time.Time) (*Catalog, error) {
	return parse("simulated.yaml", simulatedFile, nil, now)
}

// Server describes one OpenAI-compatible server, as far as a few variables can.
type Server struct {
	BaseURL, Model string
	Key            config.Secret
	// Price is "input=0.40,cached_input=0.10,output=1.60" in US dollars per million tokens, or "free". It may be empty when
	// the price is known here.
	Price string
	// Concurrency is how many requests may be in flight; 0 for the default.
	Concurrency int
}

// NewServer returns the catalogue of one provider `openai` and one route `default`.
func NewServer(s Server, now time.Time) (*Catalog, error) {
	if _, err := openai.ParseBase(s.BaseURL); err != nil {
		return nil, fmt.Errorf("base URL %q: %w", s.BaseURL, err)
	}
	row, err := s.price(now)
	if err != nil {
		return nil, err
	}
	concurrency := defaultConcurrency
	if s.Concurrency > 0 {
		concurrency = s.Concurrency
	}
	p := &Provider{
		Name: openAIProvider, Kind: OpenAI, BaseURL: s.BaseURL, Key: s.Key, Group: openAIProvider, Timeouts: defaultTimeouts(),
	}
	if !s.Key.IsZero() {
		p.KeyID = "OPENAI_API_KEY"
	}
	return &Catalog{
		Providers: []*Provider{p},
		Groups:    map[string]Group{p.Group: {Name: p.Group, Concurrency: concurrency}},
		Prices:    []price.Row{row},
		routes: map[string][]Target{
			defaultRoute: {{Provider: p, Model: s.Model, MaxOutputTokens: defaultMaxOutputTokens}},
		},
	}, nil
}

// price is what the server's model costs: as told, or as known.
func (s Server) price(now time.Time) (price.Row, error) {
	switch {
	case s.Price != "":
		return parsePrice(s.Model, s.Price)
	case s.BaseURL == OpenAIURL:
		return knownPrice(s.Model, now)
	default:
		return price.Row{}, fmt.Errorf("what the model %s costs at %s is not known: %s", s.Model, s.BaseURL, priceAdvice)
	}
}

const priceAdvice = `set PAWL_OPENAI_PRICE to US dollars per million tokens, such as ` +
	`"input=0.40,cached_input=0.10,output=1.60", or to "free"; or give a models file`

// knownPrice finds the price of one of OpenAI's own models.
func knownPrice(model string, now time.Time) (price.Row, error) {
	known, err := parse("openai.yaml", knownFile, nil, now)
	if err != nil {
		return price.Row{}, err
	}
	if row, ok := price.NewList(known.Prices).At(openAIProvider, model, now); ok {
		return row, nil
	}
	return price.Row{}, fmt.Errorf("what the model %s costs is not known: %s", model, priceAdvice)
}

// parsePrice reads the text form of a price. It holds from the beginning of time, because it says no date.
func parsePrice(model, text string) (price.Row, error) {
	row := price.Row{Provider: openAIProvider, Model: model, From: time.Unix(0, 0).UTC()}
	if text == "free" {
		return row, nil
	}
	units := map[string]price.Unit{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		unit, err := price.ParseUnit(value)
		if err != nil || !slices.Contains([]string{"input", "cached_input", "cache_write", "output"}, name) {
			return price.Row{}, fmt.Errorf("the price %q cannot be read at %q: %s", text, part, priceAdvice)
		}
		units[name] = unit
	}
	var hasInput, hasOutput bool
	row.Input, hasInput = units["input"]
	row.Output, hasOutput = units["output"]
	if !hasInput || !hasOutput {
		return price.Row{}, fmt.Errorf("the price %q lacks input or output: %s", text, priceAdvice)
	}
	row.CachedInput, row.CacheWrite = row.Input, row.Input
	if u, ok := units["cached_input"]; ok {
		row.CachedInput = u
	}
	if u, ok := units["cache_write"]; ok {
		row.CacheWrite = u
	}
	return row, nil
}
