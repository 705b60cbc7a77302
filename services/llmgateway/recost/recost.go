// Package recost computes what stored usage would cost by other prices, and corrects what is booked. It needs no answer and no
// provider: the log has the counts of every request.
package recost

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/store"
)

// page is how many requests are looked at, and corrected, at a time.
const page = 1000

// Options say which requests are looked at.
type Options struct {
	// From and To are the first day, in UTC, and the day after the last one, by the time of sending.
	From, To time.Time
	// Model limits it to a model, or to one of a provider as provider/model; empty for all.
	Model string
	// Prices are the rows that hold now, each for its time.
	Prices price.List
	// Apply corrects what is booked; ID names the correction in the journal.
	Apply bool
	ID    uuid.UUID
}

// Line is what comes of a model's requests.
type Line struct {
	Provider, Model string
	// Requests were looked at; Changed of them have another cost; Unpriced have no price even now.
	Requests, Changed, Unpriced int64
	// Before and After are the costs of those that are priced.
	Before, After money.Pico
	// Corrected is how many were corrected; those that changed meanwhile are not.
	Corrected int64
}

// Run looks at all requests, and corrects them if it is to. What it returns is in the order of the models' names, also as far
// as it came when it returns an error.
func Run(ctx context.Context, s *store.Store, o Options) ([]Line, error) {
	r := &run{Options: o, store: s, lines: map[[2]string]*Line{}}
	var last store.Priced
	for {
		seen, err := s.ListPriced(ctx, o.From, o.To, last, page)
		if err == nil {
			err = r.take(ctx, seen)
		}
		if err != nil || len(seen) < page {
			return r.sorted(), err
		}
		last = seen[len(seen)-1]
	}
}

type run struct {
	Options
	store *store.Store
	lines map[[2]string]*Line
}

// take looks at a page of requests.
func (r *run) take(ctx context.Context, seen []store.Priced) error {
	var changes []store.Change
	for _, p := range seen {
		if !r.wanted(p) {
			continue
		}
		line := r.line(p)
		line.Requests++
		bill, err := r.cost(p)
		if err != nil { // it has no price, or counts that no row can bill
			line.Unpriced++
			continue
		}
		line.Before += p.Cost
		line.After += bill.Total
		if bill.Total == p.Cost && p.Basis != store.Unpriced {
			continue
		}
		line.Changed++
		changes = append(changes, &store.Recost{Of: store.Recosting{ID: r.ID, From: r.From, To: r.To}, Seen: p, Bill: bill})
	}
	if !r.Apply {
		return nil
	}
	err := errors.Join(r.store.SubmitAll(ctx, changes)...)
	for _, c := range changes {
		if done, ok := c.(*store.Recost); ok && done.Done {
			r.line(done.Seen).Corrected++
		}
	}
	return err
}

// wanted reports whether the request's model is meant; the names of simulated ones go on with their faults.
func (r *run) wanted(p store.Priced) bool {
	model, _, _ := strings.Cut(p.Model, "?")
	return r.Model == "" || r.Model == model || r.Model == p.Provider+"/"+model
}

func (r *run) line(p store.Priced) *Line {
	model, _, _ := strings.Cut(p.Model, "?")
	name := [2]string{p.Provider, model}
	if r.lines[name] == nil {
		r.lines[name] = &Line{Provider: p.Provider, Model: model}
	}
	return r.lines[name]
}

func (r *run) cost(p store.Priced) (price.Bill, error) {
	card, ok := r.Prices.At(p.Provider, p.Model, p.SentAt)
	if !ok {
		return price.Bill{}, price.ErrUnpriced
	}
	return card.Cost(p.Usage)
}

func (r *run) sorted() []Line {
	lines := make([]Line, 0, len(r.lines))
	for _, l := range r.lines {
		lines = append(lines, *l)
	}
	slices.SortFunc(lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	return lines
}
