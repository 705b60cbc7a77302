package compat

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
)

const (
	// keyTTL is how long a key's holder is remembered, and so how long a revoked key may still open.
	keyTTL = time.Minute
	// unknownKeyTTL is how long a refusal is remembered, and so how long a new key may be refused after a try that came too early.
	unknownKeyTTL = 5 * time.Second
	// maxKeys bounds what is remembered, so that made-up keys cannot fill the memory.
	maxKeys = 10_000
	// lookupTime bounds a look at intake, for which several requests may be waiting.
	lookupTime = 3 * time.Second
)

// holder is who presents a key.
type holder struct {
	tenant, role, prefix string
}

// roles that may ask models; of the others that exist, viewer reads.
func mayAsk(role string) bool { return slices.Contains([]string{"client", "operator", "admin"}, role) }

func mayRead(role string) bool { return role == "viewer" || mayAsk(role) }

// keyring remembers the holders of API keys, so that a request costs no call of intake, and goes on for a moment when intake
// is away. It holds digests only.
type keyring struct {
	access systemv1.AccessServiceClient
	clock  clock.Clock

	lookups singleflight.Group

	mu      sync.Mutex
	answers map[[sha256.Size]byte]identity // guarded by mu
}

// identity is what is known of a key: its holder, or why it is refused.
type identity struct {
	holder holder
	err    error
	until  time.Time
}

func newKeyring(access systemv1.AccessServiceClient, c clock.Clock) *keyring {
	return &keyring{access: access, clock: c, answers: map[[sha256.Size]byte]identity{}}
}

// authenticate returns whose key came with the request, if its role is good for it.
func (e *endpoint) authenticate(r *http.Request, allowed func(role string) bool) (holder, error) {
	key := presentedKey(r)
	if key == "" {
		return holder{}, unauthenticated("an API key is needed: send it as Authorization: Bearer pawl_…")
	}
	h, err := e.keys.identify(r.Context(), key)
	if err != nil {
		return holder{}, err
	}
	x := exchangeOf(r.Context())
	x.tenant, x.prefix = h.tenant, h.prefix
	if !allowed(h.role) {
		return holder{}, &problem{
			status: http.StatusForbidden, kind: kindPermission, code: "insufficient_permissions",
			message: "a key with the role " + h.role + " may list models and ask none: that takes the role client",
		}
	}
	return h, nil
}

func presentedKey(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

func unauthenticated(message string) *problem {
	return &problem{status: http.StatusUnauthorized, kind: kindInvalid, code: "invalid_api_key", message: message}
}

// identify returns the holder of the key.
func (k *keyring) identify(ctx context.Context, key string) (holder, error) {
	digest := sha256.Sum256([]byte(key))
	if known, ok := k.recall(digest); ok {
		return known.holder, known.err
	}
	found, err, _ := k.lookups.Do(string(digest[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTime)
		defer cancel()
		return k.lookUp(ctx, key, digest)
	})
	if err != nil {
		return holder{}, err
	}
	h, _ := found.(holder)
	return h, nil
}

func (k *keyring) recall(digest [sha256.Size]byte) (identity, bool) {
	now := k.clock.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	known, ok := k.answers[digest]
	return known, ok && now.Before(known.until)
}

// lookUp asks intake. What it says is as old as the question: from there on it is remembered.
func (k *keyring) lookUp(ctx context.Context, key string, digest [sha256.Size]byte) (holder, error) {
	asked := k.clock.Now()
	found, err := k.access.Authenticate(ctx, &systemv1.AuthenticateRequest{ApiKey: key})
	switch {
	case err == nil:
		h := holder{found.GetTenant(), found.GetRole(), found.GetKeyPrefix()}
		k.remember(digest, identity{holder: h, until: asked.Add(keyTTL)})
		return h, nil
	case fault.Is(err, faultv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED):
		refused := unauthenticated(fault.Of(err).Message)
		k.remember(digest, identity{err: refused, until: asked.Add(unknownKeyTTL)})
		return holder{}, refused
	default:
		return holder{}, fault.Unavailable(err, "keys cannot be checked at the moment")
	}
}

func (k *keyring) remember(digest [sha256.Size]byte, what identity) {
	now := k.clock.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.answers) >= maxKeys {
		k.forget(now)
	}
	k.answers[digest] = what
}

// forget makes room: it drops what is too old and, if that is not enough, everything. k.mu is held.
func (k *keyring) forget(now time.Time) {
	for digest, known := range k.answers {
		if !now.Before(known.until) {
			delete(k.answers, digest)
		}
	}
	if len(k.answers) >= maxKeys {
		clear(k.answers)
	}
}
