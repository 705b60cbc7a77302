package catalog

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/provider/openai"
)

// OpenAIURL is the address of OpenAI's own API.
const OpenAIURL = openai.DefaultBase

// The name of the route and the provider that the environment makes.
const (
	defaultRoute   = "default"
	openAIProvider = "openai"
)

// simulatedFile is the models file of a system to which nobody has given a model.
//
//go:embed simulated.yaml
var simulatedFile []byte

// pricesFile has dated prices of known models, so that a key alone is enough to begin.
//
//go:embed prices.yaml
var pricesFile []byte

// KnownPrices returns the price rows of known models, by the names under which their vendors are known: openai, anthropic,
// gemini, deepseek.
func KnownPrices() ([]price.Row, error) {
	const name = "prices.yaml"
	root, err := document(pricesFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f := &file{catalog: &Catalog{}}
	f.mapping(root, "", fields{"prices": func(n *yaml.Node, p string) { f.list(n, p, f.price) }}, "prices")
	return f.catalog.Prices, f.err(name)
}

// NewSimulated returns the catalogue of the simulated provider alone.
func NewSimulated(now time.Time) (*Catalog, error) {
	return (&file{}).parse("simulated.yaml", simulatedFile, now)
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
	if _, err := provider.ParseBase(s.BaseURL); err != nil {
		return nil, fmt.Errorf("base URL %q: %w", s.BaseURL, err)
	}
	rows, err := s.prices(now)
	if err != nil {
		return nil, err
	}
	p := &Provider{
		Name: openAIProvider, Kind: OpenAI, Format: openai.Format, BaseURL: s.BaseURL, Group: openAIProvider, Timeouts: defaultTimeouts(),
		Breaker: defaultBreaker(),
	}
	if !s.Key.IsZero() {
		p.Keys = []Key{{ID: "OPENAI_API_KEY", Secret: s.Key}}
	}
	group := defaultGroup(p.Group)
	if s.Concurrency > 0 {
		group.Concurrency = s.Concurrency
	}
	return &Catalog{
		Providers: []*Provider{p},
		Groups:    map[string]Group{p.Group: group},
		Prices:    rows,
		routes: map[string]Route{defaultRoute: {
			Name: defaultRoute, Targets: []Target{{Provider: p, Model: s.Model, MaxOutputTokens: defaultMaxOutputTokens}},
		}},
	}, nil
}

// prices are what the server's model costs: as told, or as known.
func (s Server) prices(now time.Time) ([]price.Row, error) {
	switch {
	case s.Price != "":
		row, err := parsePrice(s.Model, s.Price)
		return []price.Row{row}, err
	case s.BaseURL == OpenAIURL:
		return knownPrices(s.Model, now)
	default:
		return nil, fmt.Errorf("what the model %s costs at %s is not known: %s", s.Model, s.BaseURL, priceAdvice)
	}
}

const priceAdvice = `set PAWL_OPENAI_PRICE to US dollars per million tokens, such as ` +
	`"input=0.40,cached_input=0.10,output=1.60", or to "free"; or give a models file`

// knownPrices finds the prices of one of OpenAI's own models; one must hold at now.
func knownPrices(model string, now time.Time) ([]price.Row, error) {
	known, err := KnownPrices()
	if err != nil {
		return nil, err
	}
	rows := slices.DeleteFunc(known, func(r price.Row) bool { return r.Provider != openAIProvider || r.Model != model })
	if _, ok := price.NewList(rows).At(openAIProvider, model, now); !ok {
		return nil, fmt.Errorf("what the model %s costs is not known: %s", model, priceAdvice)
	}
	return rows, nil
}

// parsePrice reads the text form of a price. It holds from the beginning of time, because it says no date.
func parsePrice(model, text string) (price.Row, error) {
	row := price.Row{Provider: openAIProvider, Model: model, From: time.Unix(0, 0).UTC()}
	if text == "free" {
		return row.FreeOfCharge(), nil
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
