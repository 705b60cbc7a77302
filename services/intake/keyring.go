package intake

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
)

const (
	// keyTTL is how long a key's answer is kept, and so how long a revoked key may still open at a replica that does not know,
	// and how long the old limits of a tenant hold there.
	keyTTL = time.Minute
	// unknownKeyTTL is how long a refusal is kept, and so how long a new key may be refused after a try that came too early.
	unknownKeyTTL = 5 * time.Second
	// maxKeys bounds the answers that are kept, so that made-up keys cannot fill the memory.
	maxKeys = 10_000
	// lookupTime bounds a look into the database, which several calls may be waiting for.
	lookupTime = 3 * time.Second
)

// keyring remembers who the holders of API keys are, so that a call costs no look into the database. It holds digests
// only.
type keyring struct {
	store *store.Store
	clock clock.Clock

	lookups singleflight.Group

	mu      sync.Mutex
	answers map[keyDigest]answer // guarded by mu
	used    map[string]time.Time // guarded by mu; last use by prefix, since it was last stored
}

// answer is what is known of a presented key: its holder, or why it is refused.
type answer struct {
	caller caller
	err    error
	until  time.Time
}

func newKeyring(s *store.Store, c clock.Clock) *keyring {
	return &keyring{store: s, clock: c, answers: map[keyDigest]answer{}, used: map[string]time.Time{}}
}

// identify returns the holder of the key, or UNAUTHENTICATED.
func (k *keyring) identify(ctx context.Context, key string) (caller, error) {
	prefix, digest, err := splitKey(key)
	if err != nil {
		return caller{}, errNoKeyForm()
	}
	if known, ok := k.recall(digest); ok {
		return known.caller, known.err
	}
	return k.lookUpOnce(ctx, prefix, digest)
}

// identifyNow is identify for those who remember the answer themselves: it looks into the database, or else a revoked key
// would open for the time of both memories.
func (k *keyring) identifyNow(ctx context.Context, key string) (caller, error) {
	prefix, digest, err := splitKey(key)
	if err != nil {
		return caller{}, errNoKeyForm()
	}
	return k.lookUpOnce(ctx, prefix, digest)
}

func errNoKeyForm() error { return unauthenticated("that is no API key: it begins with pawl_") }

// lookUpOnce looks a key up, once for all who want to know it at the moment.
func (k *keyring) lookUpOnce(ctx context.Context, prefix string, digest keyDigest) (caller, error) {
	found, err, _ := k.lookups.Do(string(digest[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTime)
		defer cancel()
		return k.lookUp(ctx, prefix, digest)
	})
	if err != nil {
		return caller{}, err
	}
	holder, _ := found.(caller)
	return holder, nil
}

// recall returns what is known of a key, and notes its use.
func (k *keyring) recall(digest keyDigest) (answer, bool) {
	now := k.clock.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	known, ok := k.answers[digest]
	if !ok || !now.Before(known.until) {
		return answer{}, false
	}
	if known.err == nil {
		k.used[known.caller.keyPrefix] = now
	}
	return known, true
}

func (k *keyring) lookUp(ctx context.Context, prefix string, digest keyDigest) (caller, error) {
	found, err := k.store.FindKey(ctx, prefix)
	holder, err := verify(found, err, digest)
	switch {
	case err == nil:
		k.remember(digest, answer{caller: holder}, min(keyTTL, found.Left))
	case fault.Is(err, faultv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED):
		k.remember(digest, answer{err: err}, unknownKeyTTL)
	}
	return holder, err
}

func (k *keyring) remember(digest keyDigest, a answer, ttl time.Duration) {
	now := k.clock.Now()
	a.until = now.Add(ttl)
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.answers) >= maxKeys {
		k.forget(now)
	}
	k.answers[digest] = a
	if a.err == nil {
		k.used[a.caller.keyPrefix] = now
	}
}

// forget makes room: it drops what is too old and, if that is not enough, everything. k.mu is held.
func (k *keyring) forget(now time.Time) {
	for digest, a := range k.answers {
		if !now.Before(a.until) {
			delete(k.answers, digest)
		}
	}
	if len(k.answers) >= maxKeys {
		clear(k.answers)
	}
}

// drop forgets the answers that stand for such a caller, and all refusals: their keys are looked up again.
func (k *keyring) drop(isMeant func(caller) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.answers, func(_ keyDigest, a answer) bool { return a.err != nil || isMeant(a.caller) })
}

// flush stores when keys were last used. What cannot be stored is tried again with the next flush.
func (k *keyring) flush(ctx context.Context) error {
	k.mu.Lock()
	used := k.used
	k.used = map[string]time.Time{}
	k.mu.Unlock()
	if len(used) == 0 {
		return nil
	}
	err := k.store.TouchKeys(ctx, used)
	if err != nil {
		k.restore(used)
	}
	return err
}

func (k *keyring) restore(used map[string]time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for prefix, at := range used {
		if k.used[prefix].Before(at) {
			k.used[prefix] = at
		}
	}
}
