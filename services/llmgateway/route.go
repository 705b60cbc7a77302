package llmgateway

import (
	"slices"

	"pawl.internal/services/llmgateway/catalog"
	"pawl.internal/services/llmgateway/failure"
)

// route is the order in which the targets of a question are tried.
type route struct {
	targets []catalog.Target
	// failures is how often the step has failed in passing, and fallbackAfter how many failures on a target lead on.
	failures, fallbackAfter int32
}

// first returns the target that is tried first. After requests of unknown fate that is one that matches a timeout, if there
// is another than those that were asked.
func (r route) first(ambiguous []string) int {
	if len(ambiguous) > 0 {
		if i := slices.IndexFunc(r.targets, func(t catalog.Target) bool {
			return t.MatchesOn(catalog.Timeout) && !slices.Contains(ambiguous, t.Name())
		}); i >= 0 {
			return i
		}
	}
	return max(0, slices.IndexFunc(r.targets, ordinary))
}

// next returns the target to be tried in the same call after target i has failed; false when there is none. A target that
// matches the failure goes before those of the ordinary order.
func (r route) next(i int, f failure.Failure) (int, bool) {
	if !r.leads(f) {
		return 0, false
	}
	later := r.targets[i+1:]
	eligible := func(t catalog.Target) bool {
		return !waits(f.Class) || t.Provider.Group != r.targets[i].Provider.Group
	}
	if condition, ok := conditionOf(f.Class); ok {
		if j := slices.IndexFunc(later, func(t catalog.Target) bool { return t.MatchesOn(condition) }); j >= 0 {
			return i + 1 + j, true
		}
	}
	j := slices.IndexFunc(later, func(t catalog.Target) bool { return ordinary(t) && eligible(t) })
	return i + 1 + j, j >= 0
}

// leads reports whether a failure leads to another target at all: some do at once, some when the target has failed often
// enough, and some never, because another target would fail alike or somebody must act.
func (r route) leads(f failure.Failure) bool {
	switch {
	case f.AnswerAtFault:
		return false
	case f.Class.MovesOn():
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
