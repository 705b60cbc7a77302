package llmgateway

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"pawl.internal/services/llmgateway/catalog"
	"pawl.internal/services/llmgateway/failure"
)

// route is the way of a question through the targets of its route.
type route struct {
	targets []catalog.Target
	// failures is how often the step has failed in passing, and fallbackAfter how many failures on a target lead on.
	failures, fallbackAfter int32
	// used marks the targets that were tried, and aside is true as long as the way has not come to the ordinary order.
	used  []bool
	aside bool
}

// newRoute orders the targets for the question with the digest: those that share questions by weight are drawn by it, so that
// one question goes the same way however often it is asked, and by whichever replica.
func newRoute(targets []catalog.Target, digest [32]byte, failures, fallbackAfter int32) *route {
	r := &route{
		targets: slices.Clone(targets), failures: failures, fallbackAfter: max(1, fallbackAfter), used: make([]bool, len(targets)),
	}
	draw := rand.New(rand.NewPCG(binary.BigEndian.Uint64(digest[:8]), binary.BigEndian.Uint64(digest[8:16]))) //nolint:gosec // it spreads questions, and must be repeatable
	for first := 0; first < len(r.targets); {
		next := first + 1
		for next < len(r.targets) && r.targets[next].Rank == r.targets[first].Rank {
			next++
		}
		shuffle(r.targets[first:next], draw)
		first = next
	}
	return r
}

// shuffle orders targets of one rank: each place is drawn by weight from those that are left.
func shuffle(targets []catalog.Target, draw *rand.Rand) {
	for len(targets) > 1 {
		total := 0
		for _, t := range targets {
			total += t.Weight
		}
		n, i := draw.IntN(total), 0
		for n >= targets[i].Weight {
			n -= targets[i].Weight
			i++
		}
		chosen := targets[i]
		copy(targets[1:i+1], targets[:i])
		targets[0], targets = chosen, targets[1:]
	}
}

// first returns the target that is tried first. After requests of unknown fate that is one that matches a timeout, if there
// is another than those that were asked.
func (r *route) first(ambiguous []string) int {
	if len(ambiguous) > 0 {
		if i := slices.IndexFunc(r.targets, func(t catalog.Target) bool {
			return t.MatchesOn(catalog.Timeout) && !slices.Contains(ambiguous, t.Name())
		}); i >= 0 {
			r.aside = true
			return r.use(i)
		}
	}
	return r.use(max(0, slices.IndexFunc(r.targets, ordinary)))
}

// next returns the target to be tried in the same call after target i has failed; false when there is none. A target that
// matches the failure goes before those of the ordinary order. Skipped is true when nothing was sent to target i, because it
// rests.
func (r *route) next(i int, f failure.Failure, skipped bool) (int, bool) {
	j, ok := r.peek(i, f, skipped)
	if ok {
		r.aside = r.aside && !ordinary(r.targets[j])
		r.use(j)
	}
	return j, ok
}

// peek is next, and leaves everything as it is.
func (r *route) peek(i int, f failure.Failure, skipped bool) (int, bool) {
	if !r.leads(f, skipped) {
		return 0, false
	}
	if condition, ok := conditionOf(f.Class); ok {
		if j := r.after(i, func(t catalog.Target) bool { return t.MatchesOn(condition) }); j >= 0 {
			return j, true
		}
	}
	from := i
	if r.aside {
		from = -1 // the ordinary order is still to come
	}
	j := r.after(from, func(t catalog.Target) bool { return ordinary(t) && r.mayHelp(t, i, f) })
	return j, j >= 0
}

// after returns the first target behind the place that was not tried and is as wanted; -1 if there is none.
func (r *route) after(place int, wanted func(catalog.Target) bool) int {
	for j := place + 1; j < len(r.targets); j++ {
		if !r.used[j] && wanted(r.targets[j]) {
			return j
		}
	}
	return -1
}

func (r *route) use(i int) int {
	r.used[i] = true
	return i
}

// mayHelp reports whether the target is not behind the same limit or the same empty purse as target i.
func (r *route) mayHelp(t catalog.Target, i int, f failure.Failure) bool {
	sameAccount := t.Provider.Group == r.targets[i].Provider.Group
	return !sameAccount || !waits(f.Class) && (f.Class != failure.Quota || f.Scope != failure.ScopeAccount)
}

// leads reports whether a failure leads to another target at all: some do at once, some when the target has failed often
// enough, and some never, because another target would fail alike or somebody must act.
func (r *route) leads(f failure.Failure, skipped bool) bool {
	switch {
	case f.AnswerAtFault:
		return false
	case f.Class.MovesOn(), skipped:
		return true
	case f.Class == failure.Transient, f.Class == failure.Overloaded, waits(f.Class):
		return r.failures+1 >= r.fallbackAfter
	default:
		return false
	}
}

// waits: the limit group is at its limit, so another target of the same group would be too.
func waits(c failure.Class) bool { return c == failure.Rate || c == failure.Daily }

func ordinary(t catalog.Target) bool { return len(t.Match) == 0 }

func conditionOf(c failure.Class) (catalog.Condition, bool) {
	if c == failure.Context {
		return catalog.ContextTooLong, true
	}
	return "", false
}

// mostUseful chooses, of the failures of all targets that were tried, the one to go back to the step: that which passes
// soonest, or else the last one.
func mostUseful(failures []failure.Failure) failure.Failure {
	best := failures[len(failures)-1]
	for _, f := range failures {
		if f.Class.Passing() && (!best.Class.Passing() || f.Wait < best.Wait) {
			best = f
		}
	}
	return best
}
