package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/provider/openai"
)

// The defaults of what the file leaves out.
const (
	defaultConcurrency     = 64
	defaultMaxOutputTokens = 4096
)

func defaultTimeouts() provider.Timeouts {
	return provider.Timeouts{
		Connect: 5 * time.Second, Write: 10 * time.Second,
		FirstByte: 120 * time.Second, FirstEvent: 60 * time.Second, Idle: 30 * time.Second,
	}
}

// Environment looks up an environment variable, as os.LookupEnv does.
type Environment func(name string) (string, bool)

// Load reads a models file. The error lists everything that is wrong, each with line and column. Every target must have a
// price that holds at now.
func Load(path string, env Environment, now time.Time) (*Catalog, error) {
	content, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("read models file: %w", err)
	}
	return parse(path, content, env, now)
}

func parse(path string, content []byte, env Environment, now time.Time) (*Catalog, error) {
	root, err := document(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f := &file{env: env, folder: filepath.Dir(path), catalog: &Catalog{Groups: map[string]Group{}, routes: map[string][]Target{}}}
	f.mapping(root, "", fields{
		"providers": func(n *yaml.Node, p string) { f.list(n, p, f.provider) },
		"limits":    func(n *yaml.Node, p string) { f.entries(n, p, f.limit) },
		"routes":    func(n *yaml.Node, p string) { f.entries(n, p, f.route) },
		"prices":    func(n *yaml.Node, p string) { f.list(n, p, f.price) },
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

	targets []place
	prices  []place
	limits  []place
}

// place is where something stands that is checked once everything is read.
type place struct {
	node            *yaml.Node
	path            string
	provider, model string
	route           string
	target          Target
}

func (f *file) provider(n *yaml.Node, path string) {
	p := &Provider{Timeouts: defaultTimeouts()}
	var keyEnv, keyFile string
	f.mapping(n, path, fields{
		"name":         f.text(&p.Name),
		"kind":         oneOf(&f.reader, &p.Kind, OpenAI, Simulated),
		"base_url":     f.baseURL(&p.BaseURL),
		"api_key_env":  f.text(&keyEnv),
		"api_key_file": f.text(&keyFile),
		"limit_group":  f.text(&p.Group),
		"timeouts":     func(n *yaml.Node, path string) { f.timeouts(&p.Timeouts, n, path) },
	}, "name", "kind")
	if p.Group == "" {
		p.Group = p.Name
	}
	f.key(p, keyEnv, keyFile, n, path)
	f.address(p, n, path)
	for _, other := range f.catalog.Providers {
		if other.Name == p.Name && p.Name != "" {
			f.complain(n, path, "there is another provider with the name %q", p.Name)
		}
	}
	f.catalog.Providers = append(f.catalog.Providers, p)
}

func (f *file) baseURL(dst *string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		f.text(dst)(n, path)
		if _, err := openai.ParseBase(*dst); *dst != "" && err != nil {
			f.complain(n, path, "%v", err)
		}
	}
}

// address checks that a provider has an address exactly when it is elsewhere.
func (f *file) address(p *Provider, n *yaml.Node, path string) {
	switch {
	case p.Kind == OpenAI && p.BaseURL == "":
		f.complain(n, path, `"base_url" is missing, such as https://api.openai.com/v1`)
	case p.Kind == Simulated && (p.BaseURL != "" || p.KeyID != ""):
		f.complain(n, path, "a simulated provider has no address and no key")
	}
}

func (f *file) timeouts(t *provider.Timeouts, n *yaml.Node, path string) {
	f.mapping(n, path, fields{
		"connect": f.duration(&t.Connect), "write": f.duration(&t.Write),
		"first_byte": f.duration(&t.FirstByte), "first_event": f.duration(&t.FirstEvent),
		"idle": f.duration(&t.Idle), "total": f.duration(&t.Total),
	})
}

// key finds the provider's key where the file says it is. The key itself never stands in the file.
func (f *file) key(p *Provider, fromEnv, fromFile string, n *yaml.Node, path string) {
	switch {
	case fromEnv != "" && fromFile != "":
		f.complain(n, path, "api_key_env and api_key_file are both given: one is enough")
	case fromEnv != "":
		value, _ := f.env(fromEnv)
		if strings.TrimSpace(value) == "" {
			f.complain(n, path, "the environment variable %s is not set", fromEnv)
		}
		p.Key, p.KeyID = config.NewSecret(strings.TrimSpace(value)), fromEnv
	case fromFile != "":
		if !filepath.IsAbs(fromFile) {
			fromFile = filepath.Join(f.folder, fromFile)
		}
		value, err := os.ReadFile(fromFile) //nolint:gosec // the operator names the file
		if err != nil {
			f.complain(n, path, "api_key_file: %v", err)
		}
		p.Key, p.KeyID = config.NewSecret(strings.TrimSpace(string(value))), filepath.Base(fromFile)
	}
}

func (f *file) limit(name, n *yaml.Node, path string) {
	g := Group{Name: name.Value, Concurrency: defaultConcurrency}
	var requests, tokens int
	var reserve string
	f.mapping(n, path, fields{
		"concurrency":         f.positive(&g.Concurrency),
		"requests_per_minute": f.positive(&requests),
		"tokens_per_minute":   f.positive(&tokens),
		"interactive_reserve": f.text(&reserve),
	})
	if requests > 0 || tokens > 0 || reserve != "" {
		f.catalog.Warnings = append(f.catalog.Warnings, path+
			": only concurrency is enforced; requests_per_minute, tokens_per_minute and interactive_reserve are not yet")
	}
	f.catalog.Groups[g.Name] = g
	f.limits = append(f.limits, place{node: name, path: path, provider: name.Value})
}

func (f *file) route(name, n *yaml.Node, path string) {
	f.list(n, path, func(n *yaml.Node, path string) {
		t := place{node: n, path: path, route: name.Value}
		most := defaultMaxOutputTokens
		f.mapping(n, path, fields{
			"provider":          f.text(&t.provider),
			"model":             f.text(&t.model),
			"max_output_tokens": f.positive(&most),
			"match": func(n *yaml.Node, path string) {
				f.list(n, path, func(n *yaml.Node, path string) {
					var c Condition
					oneOf(&f.reader, &c, ContextTooLong, Timeout)(n, path)
					t.target.Match = append(t.target.Match, c)
				})
			},
		}, "provider", "model")
		t.target.Model, t.target.MaxOutputTokens = t.model, int64(most)
		f.targets = append(f.targets, t)
	})
}
