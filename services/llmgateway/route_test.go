package llmgateway

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/llmgateway/catalog"
	"pawl.internal/services/llmgateway/failure"
)

// targetsOf makes targets from words such as "a/x", "a/x*3" with a weight, "a/x!timeout" with a match; a word after | begins a
// new rank. Providers are their own limit groups, except that b counts toward a's.
func targetsOf(text string) []catalog.Target {
	var list []catalog.Target
	for rank, words := range strings.Split(text, "|") {
		for word := range strings.FieldsSeq(words) {
			name, match, _ := strings.Cut(word, "!")
			name, weight, _ := strings.Cut(name, "*")
			provider, model, _ := strings.Cut(name, "/")
			t := catalog.Target{
				Provider: &catalog.Provider{Name: provider, Group: strings.ReplaceAll(provider, "b", "a")}, Model: model, Rank: rank,
			}
			_, _ = fmt.Sscan(weight, &t.Weight)
			if match != "" {
				t.Match = []catalog.Condition{catalog.Condition(match)}
			}
			list = append(list, t)
		}
	}
	return list
}

func of(class failure.Class) failure.Failure { return failure.Failure{Class: class} }

// way follows a route: what is tried when every target fails with the failure.
func way(r *route, ambiguous []string, f failure.Failure, skipped bool) string {
	var names []string
	for i, more := r.first(ambiguous), true; more; i, more = r.next(i, f, skipped) {
		names = append(names, r.targets[i].Name())
	}
	return strings.Join(names, " ")
}

func TestTheWayThroughARoute(t *testing.T) {
	t.Parallel()
	const plain = "a/x | b/y | c/z"
	const full = "a/x | a/long!context_too_long | c/slow!timeout | c/z | d/longer!context_too_long"
	modelQuota := failure.Failure{Class: failure.Quota, Scope: failure.ScopeModel}
	atFault := failure.Failure{Class: failure.Transient, AnswerAtFault: true}
	for name, c := range map[string]struct {
		targets   string
		ambiguous []string
		failure   failure.Failure
		failures  int32
		after     int32
		skipped   bool
		want      string
	}{
		"a passing failure":                      {plain, nil, of(failure.Transient), 0, 1, false, "a/x b/y c/z"},
		"overload":                               {plain, nil, of(failure.Overloaded), 0, 1, false, "a/x b/y c/z"},
		"the first failure of two":               {plain, nil, of(failure.Transient), 0, 2, false, "a/x"},
		"the second failure of two":              {plain, nil, of(failure.Transient), 1, 2, false, "a/x b/y c/z"},
		"nothing said means one":                 {plain, nil, of(failure.Transient), 0, 0, false, "a/x b/y c/z"},
		"a limit of the same group":              {plain, nil, of(failure.Rate), 0, 1, false, "a/x c/z"},
		"a daily limit":                          {plain, nil, of(failure.Daily), 0, 1, false, "a/x c/z"},
		"a limit, the first of two":              {plain, nil, of(failure.Rate), 0, 2, false, "a/x"},
		"a pause that is known before":           {plain, nil, of(failure.Rate), 0, 2, true, "a/x c/z"},
		"a target that rests":                    {plain, nil, of(failure.Overloaded), 0, 2, true, "a/x b/y c/z"},
		"an empty account":                       {plain, nil, of(failure.Quota), 0, 2, false, "a/x c/z"},
		"no allowance for the model":             {plain, nil, modelQuota, 0, 2, false, "a/x b/y c/z"},
		"a model that is gone":                   {plain, nil, of(failure.Model), 0, 2, false, "a/x b/y c/z"},
		"a region":                               {plain, nil, of(failure.Region), 0, 2, false, "a/x b/y c/z"},
		"too long, without a match":              {plain, nil, of(failure.Context), 0, 2, false, "a/x b/y c/z"},
		"a refused key":                          {plain, nil, of(failure.Auth), 9, 1, false, "a/x"},
		"a wrong request":                        {plain, nil, of(failure.Invalid), 9, 1, false, "a/x"},
		"refused content":                        {plain, nil, of(failure.Content), 9, 1, false, "a/x"},
		"unknown fate":                           {plain, nil, of(failure.Unsure), 9, 1, false, "a/x"},
		"cancelled":                              {plain, nil, of(failure.Cancelled), 9, 1, false, "a/x"},
		"an answer at fault":                     {plain, nil, atFault, 9, 1, false, "a/x"},
		"too long":                               {full, nil, of(failure.Context), 0, 2, false, "a/x a/long d/longer"},
		"matches are not for passing failures":   {full, nil, of(failure.Transient), 0, 1, false, "a/x c/z"},
		"after a timeout":                        {full, []string{"a/x"}, of(failure.Unsure), 0, 1, false, "c/slow"},
		"after a timeout, and it fails too":      {full, []string{"a/x"}, of(failure.Transient), 0, 1, false, "c/slow a/x c/z"},
		"after a timeout, and it rests":          {full, []string{"a/x"}, of(failure.Overloaded), 0, 2, true, "c/slow a/x c/z"},
		"after timeouts of both":                 {full, []string{"a/x", "c/slow"}, of(failure.Transient), 0, 2, false, "a/x"},
		"after a timeout, without a match":       {plain, []string{"a/x"}, of(failure.Unsure), 0, 1, false, "a/x"},
		"only a match is left, of another limit": {"a/x | c/y!timeout", nil, of(failure.Rate), 0, 1, false, "a/x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoute(targetsOf(c.targets), [32]byte{}, c.failures, c.after)
			require.Equal(t, c.want, way(r, c.ambiguous, c.failure, c.skipped))
		})
	}
}

// Targets with weights share the questions; one question always goes the same way.
func TestQuestionsAreSharedByWeight(t *testing.T) {
	t.Parallel()
	const questions = 20_000
	targets := targetsOf("a/x*6 b/y*3 c/z*1 | d/w")
	before := slices.Clone(targets)
	firsts, seconds := map[string]int{}, map[string]int{}
	for i := range questions {
		digest := sha256.Sum256(fmt.Append(nil, i))
		r := newRoute(targets, digest, 0, 1)
		firsts[r.targets[0].Name()]++
		seconds[r.targets[1].Name()]++
		require.Equal(t, "d/w", r.targets[3].Name(), "what has no weight keeps its place")
		again := newRoute(targets, digest, 1, 1)
		require.Equal(t, r.targets, again.targets)
	}
	require.Equal(t, before, targets, "the catalogue is not touched")
	for name, share := range map[string]float64{"a/x": 0.6, "b/y": 0.3, "c/z": 0.1} {
		require.InDelta(t, share, float64(firsts[name])/questions, 0.02, name)
	}
	// If a target fails, its questions go to the others by their weights: 6 of 10 times it is a, and then b by 3 to 1; and so on.
	require.InDelta(t, 0.3*6/7+0.1*6/9, float64(seconds["a/x"])/questions, 0.02)
	require.Positive(t, seconds["b/y"])
	require.Positive(t, seconds["c/z"])
}

func TestTheFailureThatPassesSoonestIsTheUsefulOne(t *testing.T) {
	t.Parallel()
	soon := failure.Failure{Class: failure.Overloaded, Wait: 2}
	late := failure.Failure{Class: failure.Rate, Wait: 9}
	for name, c := range map[string]struct {
		failures []failure.Failure
		want     failure.Failure
	}{
		"of two that pass":              {[]failure.Failure{late, soon}, soon},
		"of two that pass, other way":   {[]failure.Failure{soon, late}, soon},
		"one that passes":               {[]failure.Failure{late, of(failure.Invalid)}, late},
		"none that passes: the last":    {[]failure.Failure{of(failure.Model), of(failure.Context)}, of(failure.Context)},
		"one without a wait is soonest": {[]failure.Failure{soon, of(failure.Transient)}, of(failure.Transient)},
	} {
		require.Equal(t, c.want, mostUseful(c.failures), name)
	}
}
