package catalog

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"pawl.internal/services/internal/suggest"
)

// Economy says how calls of a route may be made cheaper.
type Economy string

// BatchAPI says that batch-class calls may go through the provider's own batch API, at its discount, and be answered hours later.
const BatchAPI Economy = "batch_api"

// Route is the targets that a name stands for.
type Route struct {
	Name string
	// Targets in the order in which they are tried: those of the file, and then those of the fallback routes. Targets of the
	// same Rank share the questions by their weights.
	Targets []Target
	// Economy is empty for calls that are made one by one.
	Economy Economy
}

// routeText is a route as it stands in the file.
type routeText struct {
	name      string
	node      *yaml.Node
	path      string
	economy   Economy
	fallbacks []place
}

// route reads a route: a list of targets, or a mapping with such a list and what else holds for all of them.
func (f *file) route(name, n *yaml.Node, path string) {
	r := routeText{name: name.Value, node: name, path: path}
	targets := func(n *yaml.Node, path string) {
		f.list(n, path, func(n *yaml.Node, path string) { f.target(name.Value, n, path) })
	}
	if resolve(n).Kind == yaml.MappingNode {
		f.mapping(n, path, fields{
			"targets":  targets,
			"economy":  oneOf(&f.reader, &r.economy, BatchAPI),
			"fallback": func(n *yaml.Node, path string) { f.list(n, path, f.fallback(&r)) },
		}, "targets")
	} else {
		targets(n, path)
	}
	f.routes = append(f.routes, r)
}

func (f *file) fallback(r *routeText) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		to := place{node: n, path: path}
		f.text(&to.route)(n, path)
		r.fallbacks = append(r.fallbacks, to)
	}
}

func (f *file) target(route string, n *yaml.Node, path string) {
	t := place{node: n, path: path, route: route}
	most, mostInput := defaultMaxOutputTokens, 0
	f.mapping(n, path, fields{
		"provider":          f.text(&t.provider),
		"model":             f.text(&t.model),
		"max_output_tokens": f.positive(&most),
		"max_input_tokens":  f.positive(&mostInput),
		"weight":            f.positive(&t.target.Weight),
		"match": func(n *yaml.Node, path string) {
			f.list(n, path, func(n *yaml.Node, path string) {
				var c Condition
				oneOf(&f.reader, &c, ContextTooLong, Timeout)(n, path)
				t.target.Match = append(t.target.Match, c)
			})
		},
	}, "provider", "model")
	t.target.Model, t.target.MaxOutputTokens, t.target.MaxInputTokens = t.model, int64(most), int64(mostInput)
	switch {
	case t.target.Weight > 0 && len(t.target.Match) > 0:
		f.complain(n, path, "a target with a match has no weight: it is tried after a failure, and shares nothing with others")
	case mostInput > 0 && len(t.target.Match) == 0:
		f.complain(n, path, "max_input_tokens cuts the question, so it is for targets with a match alone")
	}
	f.targets = append(f.targets, t)
}

// checkRoutes joins the routes with their fallbacks, which must exist and must not lead back.
func (f *file) checkRoutes() {
	texts := map[string]routeText{}
	for _, r := range f.routes {
		texts[r.name] = r
	}
	own := map[string][]Target{}
	for _, r := range f.routes {
		own[r.name] = ranked(f.catalog.routes[r.name].Targets)
		f.checkOrder(r, own[r.name])
	}
	for _, r := range f.routes {
		if f.checkFallbacks(r, texts, []string{r.name}) {
			f.catalog.routes[r.name] = Route{Name: r.name, Economy: r.economy, Targets: joined(r.name, texts, own, 0)}
		}
	}
}

// checkOrder complains about a route none of whose targets would ever be tried first.
func (f *file) checkOrder(r routeText, targets []Target) {
	if len(targets) == 0 || slices.ContainsFunc(targets, func(t Target) bool { return len(t.Match) == 0 }) {
		return
	}
	i := slices.IndexFunc(f.targets, func(t place) bool { return t.route == r.name })
	f.complain(f.targets[i].node, f.targets[i].path, "every target of the route %q has a match: one must be tried first", r.name)
}

// checkFallbacks follows the fallbacks of a route. The way has the names from the route at which it began. A circle is
// complained of once, at the route of it that comes first in the alphabet.
func (f *file) checkFallbacks(r routeText, texts map[string]routeText, way []string) bool {
	good := true
	for _, to := range r.fallbacks {
		next, known := texts[to.route]
		switch {
		case to.route == "":
			good = false // it has been complained of
		case !known:
			good = false
			if len(way) == 1 {
				f.complain(to.node, to.path, "there is no route %q%s", to.route, suggest.DidYouMean(to.route, keysOf(texts)))
			}
		case slices.Contains(way, to.route):
			good = false
			if to.route == way[0] && way[0] == slices.Min(way) {
				f.complain(to.node, to.path, "the fallbacks go in a circle, %s: a call would never end",
					strings.Join(append(slices.Clone(way), to.route), " → "))
			}
		default:
			good = f.checkFallbacks(next, texts, append(slices.Clone(way), to.route)) && good
		}
	}
	return good
}

// joined returns a route's own targets and those of its fallbacks, each once. There are no circles.
func joined(name string, texts map[string]routeText, own map[string][]Target, rank int) []Target {
	var all []Target
	add := func(targets []Target) {
		base := rank
		for _, t := range targets {
			t.Rank += base
			if !slices.ContainsFunc(all, t.same) {
				all, rank = append(all, t), t.Rank+1
			}
		}
	}
	add(own[name])
	for _, to := range texts[name].fallbacks {
		add(joined(to.route, texts, own, 0))
	}
	return all
}

// ranked numbers the targets: neighbours that all have a weight have the same rank.
func ranked(targets []Target) []Target {
	for i := 1; i < len(targets); i++ {
		targets[i].Rank = targets[i-1].Rank
		if targets[i].Weight == 0 || targets[i-1].Weight == 0 {
			targets[i].Rank++
		}
	}
	return targets
}
