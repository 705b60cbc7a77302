package simulated

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// Most lists are cut into pages of so many entries.
const (
	defaultPage = 20
	maxPage     = 10_000
)

// page is a part of a list.
type page[T any] struct {
	entries []T
	more    bool
}

// cutPage returns the page that a request asks for with limit and with the id of the entry before it.
func cutPage[T any](r *http.Request, all []T, after string, id func(T) string) (page[T], *failure) {
	query := r.URL.Query()
	size := defaultPage
	if asked := query.Get("limit"); asked != "" {
		n, err := strconv.Atoi(asked)
		if err != nil || n < 1 || n > maxPage {
			return page[T]{}, invalid("limit", fmt.Sprintf("limit is %q: write a number from 1 to %d", asked, maxPage))
		}
		size = n
	}
	if last := query.Get(after); last != "" {
		i := slices.IndexFunc(all, func(entry T) bool { return id(entry) == last })
		if i < 0 {
			return page[T]{}, invalid(after, fmt.Sprintf("%s is %q, which is not in the list", after, last))
		}
		all = all[i+1:]
	}
	return page[T]{entries: append([]T{}, all[:min(size, len(all))]...), more: len(all) > size}, nil
}

// ends returns the ids of a page's first and last entry, nil if it is empty.
func (p page[T]) ends(id func(T) string) (first, last any) {
	if len(p.entries) == 0 {
		return nil, nil
	}
	return id(p.entries[0]), id(p.entries[len(p.entries)-1])
}
