package failure

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// stage is the place of a rule in the order of decision.
func (r rule) stage() int {
	switch {
	case r.ends():
		return 0
	case r.code != nil, r.codeLike != nil:
		return 1
	case r.kind != nil:
		return 2
	case r.phrase != nil, r.text != nil:
		return 3
	default:
		return 4
	}
}

// everyRule checks something of the rules of all dialects.
func everyRule(t *testing.T, check func(t *testing.T, i int, r rule)) {
	t.Helper()
	for _, d := range []Dialect{OpenAI, Anthropic, Gemini} {
		require.NotEmpty(t, rules(d))
		for i, r := range rules(d) {
			check(t, i, r)
		}
	}
}

func (r rule) covers(status int) bool { return !r.ends() && (r.on == nil || r.on(status)) }

func TestTheTableKeepsTheOrderOfDecision(t *testing.T) {
	t.Parallel()
	before := 0
	everyRule(t, func(t *testing.T, i int, r rule) {
		if i == 0 {
			before = 0
		}
		require.GreaterOrEqual(t, r.stage(), before, "row %d", i)
		before = r.stage()
	})
}

func TestNoRuleMakesAServerFailurePermanent(t *testing.T) {
	t.Parallel()
	everyRule(t, func(t *testing.T, i int, r rule) {
		for status := 500; status < 600; status++ {
			fine := r.class == Transient || r.class == Overloaded || r.class == Unsure && status == 504
			require.True(t, fine || !r.covers(status), "row %d", i)
			require.False(t, r.covers(status) && (r.phrase != nil || r.text != nil), "row %d: texts decide nothing here", i)
		}
	})
}

func TestKeysAndPermissionsAreSavedByNameOnly(t *testing.T) {
	t.Parallel()
	for _, d := range []Dialect{OpenAI, Anthropic, Gemini} {
		settled := false
		for i, r := range rules(d) {
			settled = settled || r.class == Auth && r.stage() == 4 && r.covers(401) && r.covers(403) && r.when == nil
			if settled {
				break
			}
			require.True(t, r.class == Auth || r.stage() == 1 || !r.covers(401), "row %d", i)
			if r.covers(403) && r.phrase != nil {
				require.True(t, r.kind != nil || r.when != nil, "row %d: a phrase alone may be an echo", i)
			}
		}
		require.True(t, settled)
	}
}

func TestEveryDialectHasAnAnswerToEverything(t *testing.T) {
	t.Parallel()
	for d := range Dialect(5) {
		for status := -1; status < 1000; status++ {
			require.NotEmpty(t, decide(d, said{status: status}, momentOfTests()).Reason)
		}
	}
}

func TestTheTableIsMadeOnce(t *testing.T) {
	t.Parallel()
	firstRules, firstMeters := rules(Gemini), meters()
	againRules, againMeters := rules(Gemini), meters()
	require.Same(t, &firstRules[0], &againRules[0])
	require.Same(t, &firstMeters[0], &againMeters[0])
}
