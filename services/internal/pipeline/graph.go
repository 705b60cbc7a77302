package pipeline

import (
	"maps"
	"slices"
	"strings"

	"pawl.internal/services/internal/suggest"
)

// graph says which steps need which.
type graph struct {
	// needs has each step's direct needs, ascending.
	needs [][]int
	// before has all that must be finished before each step, ascending.
	before [][]int
	// order has every step after those that it needs, as far as there are no cycles.
	order []int
}

func (b *build) buildGraph() graph {
	specs := b.doc.spec.GetSteps()
	places := map[string]int{}
	for i, spec := range specs {
		if first, taken := places[spec.GetName()]; taken && spec.GetName() != "" {
			b.fail(path{"steps", i, "name"}, "step %d is called %q already", first+1, spec.GetName())
			continue
		}
		places[spec.GetName()] = i
	}
	g := graph{needs: make([][]int, len(specs)), before: make([][]int, len(specs))}
	for i := range specs {
		g.needs[i] = b.needs(i, places)
	}
	b.failCycles(g.needs)
	for i := range specs {
		g.before[i] = reachable(g.needs, i)
	}
	g.order = topological(g.needs)
	return g
}

// needs gives what a step says that it needs: by default the step before it.
func (b *build) needs(i int, places map[string]int) []int {
	where := path{"steps", i, "needs"}
	if !b.has(where) {
		if i == 0 {
			return nil
		}
		return []int{i - 1}
	}
	needed := map[int]bool{}
	for j, item := range b.doc.root.find(where).items {
		at := where.then(j)
		place, known := places[item.value]
		switch {
		case item.kind != text:
			b.fail(at, "must be the name of a step, and is %s", item.kind)
		case !known:
			b.fail(at, "there is no step %q%s", item.value, suggest.DidYouMean(item.value, maps.Keys(places)))
		case place == i:
			b.fail(at, "a step cannot need itself")
		case needed[place]:
			b.fail(at, "step %q is given twice", item.value)
		default:
			needed[place] = true
		}
	}
	return slices.Sorted(maps.Keys(needed))
}

// failCycles reports each cycle once, at its first step.
func (b *build) failCycles(needs [][]int) {
	const (
		open = iota + 1
		closed
	)
	state := make([]int, len(needs))
	var trail []int
	var walk func(i int)
	walk = func(i int) {
		state[i] = open
		trail = append(trail, i)
		for _, next := range needs[i] {
			switch state[next] {
			case 0:
				walk(next)
			case open:
				b.failCycle(trail[slices.Index(trail, next):])
			}
		}
		trail = trail[:len(trail)-1]
		state[i] = closed
	}
	for i := range needs {
		if state[i] == 0 {
			walk(i)
		}
	}
}

func (b *build) failCycle(cycle []int) {
	var steps []string
	for _, i := range append(cycle[:len(cycle):len(cycle)], cycle[0]) {
		steps = append(steps, b.doc.spec.GetSteps()[i].GetName())
	}
	first := slices.Min(cycle)
	where := path{"steps", first}
	if b.has(where.then("needs")) {
		where = where.then("needs")
	}
	b.fail(where, "the steps need each other in a cycle: %s", strings.Join(steps, " needs "))
}

// reachable gives all that a step needs, directly or not; itself only if it is in a cycle.
func reachable(needs [][]int, from int) []int {
	found := map[int]bool{}
	var walk func(i int)
	walk = func(i int) {
		for _, next := range needs[i] {
			if !found[next] {
				found[next] = true
				walk(next)
			}
		}
	}
	walk(from)
	delete(found, from)
	return slices.Sorted(maps.Keys(found))
}

// topological orders the steps so that each comes after those that it needs; within a cycle, some order.
func topological(needs [][]int) []int {
	var order []int
	done := make([]bool, len(needs))
	var walk func(i int)
	walk = func(i int) {
		if done[i] {
			return
		}
		done[i] = true
		for _, next := range needs[i] {
			walk(next)
		}
		order = append(order, i)
	}
	for i := range needs {
		walk(i)
	}
	return order
}
