package catalog

import (
	"iter"
	"maps"
	"slices"
	"time"

	"pawl.internal/services/internal/suggest"
	"pawl.internal/services/llmgateway/price"
)

// check joins what was read apart: every name must lead somewhere, and every target must have a price that holds at now.
func (f *file) check(now time.Time) {
	byName := map[string]*Provider{}
	for _, p := range f.catalog.Providers {
		byName[p.Name] = p
		if _, ok := f.catalog.Groups[p.Group]; !ok {
			f.catalog.Groups[p.Group] = defaultGroup(p.Group)
		}
	}
	for _, p := range f.prices {
		f.known(p, byName)
	}
	f.checkLimits()
	f.checkBreakers()
	prices := price.NewList(f.catalog.Prices)
	for _, t := range f.targets {
		if !f.known(t, byName) {
			continue
		}
		card, _ := prices.At(t.provider, t.model, now)
		if _, priced := card.Row(price.Standard, 0); !priced {
			f.complain(t.node, t.path, "no price of %s/%s holds today: add one to prices, or one with free: true", t.provider, t.model)
		}
		t.target.Provider = byName[t.provider]
		r := f.catalog.routes[t.route]
		r.Targets = append(r.Targets, t.target)
		f.catalog.routes[t.route] = r
	}
	f.checkRoutes()
}

// known reports whether the provider that stands there exists, and complains if not.
func (f *file) known(at place, providers map[string]*Provider) bool {
	if _, ok := providers[at.provider]; ok || at.provider == "" {
		return ok
	}
	f.complain(at.node, at.path, "there is no provider %q%s", at.provider, suggest.DidYouMean(at.provider, maps.Keys(providers)))
	return false
}

// checkLimits complains about limits that nobody counts toward: most likely a name is misspelt.
func (f *file) checkLimits() {
	for _, limit := range f.limits {
		used := slices.ContainsFunc(f.catalog.Providers, func(p *Provider) bool { return p.Group == limit.provider })
		if !used {
			f.complain(limit.node, limit.path, "no provider has the limit group %q%s", limit.provider,
				suggest.DidYouMean(limit.provider, groupsOf(f.catalog.Providers)))
		}
	}
}

func groupsOf(providers []*Provider) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, p := range providers {
			if !yield(p.Group) {
				return
			}
		}
	}
}

func keysOf[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

// checkBreakers fills in what the providers leave out about their breakers.
func (f *file) checkBreakers() {
	common := f.breakers.or(defaultBreaker())
	for _, p := range f.catalog.Providers {
		p.Breaker = p.Breaker.or(common)
	}
}
