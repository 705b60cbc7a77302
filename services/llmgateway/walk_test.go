package llmgateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/llmgateway/failure"
)

func accountOf(ids ...string) *account {
	a := &account{}
	for _, id := range ids {
		a.keys = append(a.keys, &keyed{id: id})
	}
	return a
}

// walk lets one call go from key to key as long as they fail with the failures of their ids; none is a success.
func (a *account) walk(now time.Time, failures map[string]failure.Failure) (ids []string) {
	var used []*keyed
	for k := a.choose(nil, now); k != nil; k = a.choose(used, now) {
		ids = append(ids, k.id)
		f := failures[k.id]
		k.heard(f, now)
		if !refusesKey(f) && !emptiesKey(f) {
			return ids
		}
		used = append(used, k)
	}
	return ids
}

func TestKeysTakeTurnsAndBadOnesStandAside(t *testing.T) {
	t.Parallel()
	refused := failure.Failure{Class: failure.Auth, Reason: failure.ReasonAuth}
	now := clocktest.Start
	a := accountOf("1", "2", "3")
	for _, want := range []string{"1", "2", "3", "1"} {
		require.Equal(t, []string{want}, a.walk(now, nil))
	}
	bad := map[string]failure.Failure{"2": refused, "3": refused}
	require.Equal(t, []string{"2", "3", "1"}, a.walk(now, bad))
	require.Equal(t, []string{"1"}, a.walk(now, bad), "the bad ones are known")
	now = now.Add(refusedFor)
	require.Equal(t, []string{"2", "3", "1"}, a.walk(now, bad), "each is tried again when its time is over")
	require.Equal(t, []string{"1"}, a.walk(now, bad))
	now = now.Add(refusedFor)
	require.Equal(t, []string{"2"}, a.walk(now, nil), "and serves when it is good again")
	require.Equal(t, []string{"3"}, a.walk(now, nil))
	require.Equal(t, []string{"1"}, a.walk(now, nil))
	require.Equal(t, []string{"2"}, a.walk(now, nil))
}

func TestWhenAllKeysAreBadOneIsTried(t *testing.T) {
	t.Parallel()
	refused := failure.Failure{Class: failure.Auth, Reason: failure.ReasonAuth}
	now := clocktest.Start
	a := accountOf("1", "2")
	bad := map[string]failure.Failure{"1": refused, "2": refused}
	require.Equal(t, []string{"1", "2"}, a.walk(now, bad))
	require.Equal(t, []string{"1"}, a.walk(now.Add(time.Second), bad), "the one that has stood aside the longest")
	require.Equal(t, []string{"2"}, a.walk(now.Add(2*time.Second), bad))
	require.Equal(t, []string{"1"}, a.walk(now.Add(3*time.Second), nil))
	require.Equal(t, []string{"1"}, a.walk(now.Add(4*time.Second), nil))
}

func TestAKeyThatIsTriedAgainIsTriedByOne(t *testing.T) {
	t.Parallel()
	now := clocktest.Start
	a := accountOf("1", "2")
	a.keys[0].heard(failure.Failure{Class: failure.Auth, Reason: failure.ReasonAuth}, now)
	now = now.Add(refusedFor)
	require.Equal(t, "1", a.choose(nil, now).id)
	require.Equal(t, "2", a.choose(nil, now).id, "nobody else, before its answer is there")
	require.Equal(t, "2", a.choose(nil, now).id)
}

func TestOnlyAnEmptyProjectIsTheKeysOwn(t *testing.T) {
	t.Parallel()
	now := clocktest.Start
	project := failure.Failure{Class: failure.Quota, Scope: failure.ScopeProject, Wait: time.Hour}
	a := accountOf("1", "2")
	require.Equal(t, []string{"1", "2"}, a.walk(now, map[string]failure.Failure{"1": project}))
	require.Equal(t, []string{"2"}, a.walk(now.Add(emptyMost-1), nil))
	require.Equal(t, []string{"1"}, a.walk(now.Add(emptyMost), nil), "somebody may have filled it up")

	whole := failure.Failure{Class: failure.Quota}
	require.Equal(t, []string{"2"}, a.walk(now, map[string]failure.Failure{"2": whole}), "another key of the account does not help")
	require.False(t, a.isEmpty(now))
	a.heard(whole, now)
	require.True(t, a.isEmpty(now.Add(emptyLeast-1)))
	require.False(t, a.isEmpty(now.Add(emptyLeast)), "one finds out")
	require.True(t, a.isEmpty(now.Add(emptyLeast)), "the others wait for that")
	a.heard(failure.Failure{}, now.Add(emptyLeast))
	require.False(t, a.isEmpty(now.Add(emptyLeast)))
}

func TestARefusedKeyIsNewsOnceAWhile(t *testing.T) {
	t.Parallel()
	now := clocktest.Start
	k := &keyed{}
	said := func(f failure.Failure, at time.Duration) [2]bool {
		refused, news := k.heard(f, now.Add(at))
		return [2]bool{refused, news}
	}
	refused := failure.Failure{Class: failure.Auth, Reason: failure.ReasonAuth}
	require.Equal(t, [2]bool{true, true}, said(refused, 0))
	require.Equal(t, [2]bool{true, false}, said(refused, refusedFor-1))
	require.Equal(t, [2]bool{false, false}, said(failure.Failure{Class: failure.Transient}, refusedFor-1))
	require.Equal(t, [2]bool{true, true}, said(refused, refusedFor))
	require.Equal(t, [2]bool{false, true}, said(failure.Failure{}, refusedFor))
	require.Equal(t, [2]bool{false, false}, said(failure.Failure{}, refusedFor))
	wrongAddress := failure.Failure{Class: failure.Auth, Reason: failure.ReasonUnavailable}
	require.Equal(t, [2]bool{false, false}, said(wrongAddress, refusedFor))
}
