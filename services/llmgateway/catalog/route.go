package catalog

import (
	"go.yaml.in/yaml/v3"
)

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
