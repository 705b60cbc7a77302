package llmgateway

import (
	"slices"
	"sync"
	"time"

	"pawl.internal/services/llmgateway/failure"
)

const (
	// refusedFor is how long a key is left alone that the provider has refused, until one request tries it again.
	refusedFor = time.Minute
	// emptyLeast and emptyMost bound how long a key, or a whole account, is left alone whose money is used up: somebody may
	// fill it up long before the time that the provider names.
	emptyLeast = time.Minute
	emptyMost  = 15 * time.Minute
)

// keyed is one key of an account, and what asks with it.
type keyed struct {
	id     string
	sender sender

	mu sync.Mutex
	// parked is until when requests are sent with other keys; zero for a key that is good as far as anybody knows.
	parked time.Time // guarded by mu
	// refused is true when it was refused, and alarmed until when that needs no telling again.
	refused bool      // guarded by mu
	alarmed time.Time // guarded by mu
}

// choose returns the key for the next request of a call, which has tried some keys before; nil if no other is worth trying.
// Good keys take turns. Those that are parked are tried again when their time is over, by one request each, or when there is
// no good one: then the one whose time is over first, alone.
func (a *account) choose(tried []*keyed, now time.Time) *keyed {
	a.mu.Lock()
	defer a.mu.Unlock()
	var soonest *keyed
	for i := range a.keys {
		k := a.keys[(a.turn+i)%len(a.keys)]
		switch until := k.parkedUntil(); {
		case slices.Contains(tried, k):
		case !until.After(now): // also a key that is not parked
			a.turn = (a.turn + i + 1) % len(a.keys)
			if !until.IsZero() {
				k.park(now.Add(refusedFor)) // others wait for what comes of this request
			}
			return k
		case soonest == nil || until.Before(soonest.parkedUntil()):
			soonest = k
		}
	}
	if len(tried) > 0 {
		return nil
	}
	return soonest
}

func (k *keyed) parkedUntil() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.parked
}

func (k *keyed) park(until time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.parked = until
}

// heard takes over what an answer says of the key. News is true when it was refused, or is good again, and nobody has been
// told of that for a while.
func (k *keyed) heard(f failure.Failure, now time.Time) (refused, news bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case refusesKey(f):
		news = !k.refused || !now.Before(k.alarmed)
		k.refused, k.parked = true, now.Add(refusedFor)
		if news {
			k.alarmed = now.Add(refusedFor)
		}
		return true, news
	case emptiesKey(f):
		k.parked = now.Add(emptyFor(f))
	case provesKey(f):
		news = k.refused
		k.refused, k.parked = false, time.Time{}
	}
	return false, news
}

// refusesKey: the provider does not know the key, or does not let it in. A wrong address is something else.
func refusesKey(f failure.Failure) bool {
	return f.Class == failure.Auth && f.Reason == failure.ReasonAuth
}

// emptiesKey: there is no money left for this key; others of the account may have some.
func emptiesKey(f failure.Failure) bool {
	return f.Class == failure.Quota && (f.Scope == failure.ScopeProject || f.Scope == failure.ScopeKey)
}

// provesKey: the provider has let the key in, whatever it thought of the request.
func provesKey(f failure.Failure) bool {
	switch f.Class {
	case failure.None, failure.Invalid, failure.Context, failure.Content, failure.Truncated, failure.Rate:
		return true
	default:
		return f.AnswerAtFault
	}
}

func emptyFor(f failure.Failure) time.Duration { return min(max(f.Wait, emptyLeast), emptyMost) }

// heard takes over what an answer says of the account as a whole.
func (a *account) heard(f failure.Failure, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case f.Class == failure.Quota && f.Scope == failure.ScopeAccount:
		a.empty = now.Add(emptyFor(f))
	case f.Class == failure.None:
		a.empty = time.Time{}
	}
}

// isEmpty reports whether there is no money left on the account as far as anybody knows. When it was so for a while, one
// caller is told that it is not, and finds out.
func (a *account) isEmpty(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.empty.IsZero():
		return false
	case now.Before(a.empty):
		return true
	default:
		a.empty = now.Add(emptyLeast)
		return false
	}
}
