package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"pawl.internal/services/llmgateway/provider"
)

// The defaults of what the file leaves out.
const (
	defaultConcurrency     = 64
	defaultBatchFloor      = 0.05
	defaultMaxOutputTokens = 4096
)

func defaultTimeouts() provider.Timeouts {
	return provider.Timeouts{
		Connect: 5 * time.Second, Write: 10 * time.Second,
		FirstByte: 120 * time.Second, FirstEvent: 60 * time.Second, Idle: 30 * time.Second,
	}
}

func defaultBreaker() Breaker {
	return Breaker{Failures: 10, Window: 30 * time.Second, Pause: 5 * time.Second}
}

// Environment looks up an environment variable, as os.LookupEnv does.
type Environment func(name string) (string, bool)

// Load reads a models file. The error lists everything that is wrong, each with line and column. Every target must have a
// price that holds at now.
func Load(path string, env Environment, now time.Time) (*Catalog, error) {
	return (&file{env: env}).load(path, now)
}

func (f *file) load(path string, now time.Time) (*Catalog, error) {
	content, err := f.readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read models file: %w", err)
	}
	return f.parse(path, content, now)
}

// readFile reads the models file, or one that it names.
func (f *file) readFile(name string) ([]byte, error) {
	content, err := os.ReadFile(name) //nolint:gosec // the operator names the file
	if f.read != nil {
		f.read(name, content, err)
	}
	return content, err
}

func (f *file) parse(path string, content []byte, now time.Time) (*Catalog, error) {
	root, err := document(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f.folder, f.catalog = filepath.Dir(path), &Catalog{Groups: map[string]Group{}, routes: map[string]Route{}}
	f.mapping(root, "", fields{
		"providers":        func(n *yaml.Node, p string) { f.list(n, p, f.provider) },
		"limits":           func(n *yaml.Node, p string) { f.entries(n, p, f.limit) },
		"routes":           func(n *yaml.Node, p string) { f.entries(n, p, f.route) },
		"prices":           func(n *yaml.Node, p string) { f.list(n, p, f.price) },
		"unpriced_reserve": f.unpricedReserve,
		"breaker":          func(n *yaml.Node, p string) { f.breaker(&f.breakers, n, p) },
	}, "providers", "routes")
	f.check(now)
	return f.catalog, f.err(path)
}

// document parses the YAML, which must be one document.
func document(content []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var root, more yaml.Node
	if err := decoder.Decode(&root); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the file is empty: it needs providers and routes")
		}
		return nil, err
	}
	if decoder.Decode(&more) == nil {
		return nil, fmt.Errorf("line %d: a second document: a models file is one", more.Line)
	}
	return root.Content[0], nil
}

// file is the reading of one models file: the catalogue as far as it is known, and where its parts stand.
type file struct {
	reader
	env     Environment
	folder  string
	catalog *Catalog

	// read is told of every file that is read, with its content or why there is none; may be nil.
	read func(name string, content []byte, err error)

	targets []place
	prices  []place
	limits  []place
	routes  []routeText
	// breakers holds for providers that say nothing else.
	breakers Breaker
}

// place is where something stands that is checked once everything is read.
type place struct {
	node            *yaml.Node
	path            string
	provider, model string
	route           string
	target          Target
}

func (f *file) limit(name, n *yaml.Node, path string) {
	g := defaultGroup(name.Value)
	f.mapping(n, path, fields{
		"concurrency":              f.positive(&g.Concurrency),
		"requests_per_minute":      f.count(&g.Requests),
		"tokens_per_minute":        f.count(&g.Tokens),
		"input_tokens_per_minute":  f.count(&g.InputTokens),
		"output_tokens_per_minute": f.count(&g.OutputTokens),
		"interactive_reserve":      f.share(&g.InteractiveReserve),
		"batch_floor":              f.share(&g.BatchFloor),
		"adaptive":                 f.truth(&g.Adaptive),
	})
	if g.InteractiveReserve+g.BatchFloor > 1 {
		f.complain(n, path, "interactive_reserve and batch_floor are shares of the same limit: together they must not be above 1")
	}
	f.catalog.Groups[g.Name] = g
	f.limits = append(f.limits, place{node: name, path: path, provider: name.Value})
}
