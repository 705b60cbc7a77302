package catalog

import (
	"go.yaml.in/yaml/v3"

	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/provider/anthropic"
	"pawl.internal/services/llmgateway/provider/gemini"
	"pawl.internal/services/llmgateway/provider/openai"
)

func (f *file) provider(n *yaml.Node, path string) {
	p := &Provider{Timeouts: defaultTimeouts()}
	var single Key
	f.mapping(n, path, fields{
		"name":         f.text(&p.Name),
		"kind":         oneOf(&f.reader, &p.Kind, OpenAI, Anthropic, Gemini, Simulated),
		"base_url":     f.baseURL(&p.BaseURL),
		"api_key_env":  f.keyFromEnv(&single),
		"api_key_file": f.keyFromFile(&single),
		"api_keys":     func(n *yaml.Node, path string) { f.keys(p, n, path) },
		"limit_group":  f.text(&p.Group),
		"breaker":      func(n *yaml.Node, path string) { f.breaker(&p.Breaker, n, path) },
		"timeouts":     func(n *yaml.Node, path string) { f.timeouts(&p.Timeouts, n, path) },
	}, "name", "kind")
	if p.Group == "" {
		p.Group = p.Name
	}
	if p.Format = string(p.Kind); p.Kind == Simulated {
		p.Format = openai.Format
	}
	if single.ID != "" {
		f.addKey(p, single, n, path)
	}
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
		if _, err := provider.ParseBase(*dst); *dst != "" && err != nil {
			f.complain(n, path, "%v", err)
		}
	}
}

// address checks that a provider has an address exactly when it is elsewhere.
func (f *file) address(p *Provider, n *yaml.Node, path string) {
	switch {
	case p.Kind == Anthropic && p.BaseURL == "":
		p.BaseURL = anthropic.DefaultBase
	case p.Kind == Gemini && p.BaseURL == "":
		p.BaseURL = gemini.DefaultBase
	case p.Kind == OpenAI && p.BaseURL == "":
		f.complain(n, path, `"base_url" is missing, such as https://api.openai.com/v1`)
	case p.Kind == Simulated && (p.BaseURL != "" || len(p.Keys) > 0):
		f.complain(n, path, "a simulated provider has no address and no key")
	}
}

func (f *file) breaker(b *Breaker, n *yaml.Node, path string) {
	f.mapping(n, path, fields{
		"failures": f.positive(&b.Failures), "window": f.duration(&b.Window), "pause": f.duration(&b.Pause),
	})
}

func (f *file) timeouts(t *provider.Timeouts, n *yaml.Node, path string) {
	f.mapping(n, path, fields{
		"connect": f.duration(&t.Connect), "write": f.duration(&t.Write),
		"first_byte": f.duration(&t.FirstByte), "first_event": f.duration(&t.FirstEvent),
		"idle": f.duration(&t.Idle), "total": f.duration(&t.Total),
	})
}
