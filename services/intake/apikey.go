package intake

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/pg"
)

const (
	prefixBytes = 5
	secretBytes = 32
)

// keyForm is pawl_<prefix>_<secret>. New keys have 8 and 52 characters; keys that an operator makes up may differ.
var keyForm = regexp.MustCompile(`^pawl_([a-z0-9]{4,32})_[A-Za-z0-9]{16,128}$`)

// prefixForm is its public part.
var prefixForm = regexp.MustCompile(`^[a-z0-9]{4,32}$`)

var errKeyForm = errors.New("an API key is pawl_<prefix>_<secret>: " +
	"a prefix of 4 to 32 lower-case letters and digits, and a secret of 16 to 128 letters and digits")

// keyDigest is the SHA-256 of a whole API key: what is stored and cached in its place.
type keyDigest [sha256.Size]byte

// splitKey returns the prefix by which a key is found and the digest by which it is recognised.
func splitKey(key string) (prefix string, digest keyDigest, err error) {
	parts := keyForm.FindStringSubmatch(key)
	if parts == nil {
		return "", digest, errKeyForm
	}
	return parts[1], sha256.Sum256([]byte(key)), nil
}

// newKey draws a key with 256 secret bits.
func newKey() string {
	random := make([]byte, prefixBytes+secretBytes)
	_, _ = rand.Read(random) // never fails: it ends the program rather than return an error
	encode := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString
	return strings.ToLower("pawl_" + encode(random[:prefixBytes]) + "_" + encode(random[prefixBytes:]))
}

// Bootstrap makes the first key for administrators of the operators' tenant, and returns it. When there is a valid one it is
// an error, unless another one is wanted. The schema must be migrated.
func Bootstrap(ctx context.Context, pool *pgxpool.Pool, again bool) (string, error) {
	if err := pg.CheckVersion(ctx, pool, Schema()); err != nil {
		return "", err
	}
	key := newKey()
	prefix, digest, err := splitKey(key)
	if err != nil {
		return "", err
	}
	err = store.New(pool).Bootstrap(ctx, store.NewKey{
		Prefix: prefix, Hash: digest[:], Tenant: store.System, Role: store.RoleAdmin, Note: "bootstrap",
	}, again, store.Deed{Actor: "bootstrap"})
	if errors.Is(err, store.ErrExists) {
		return "", fmt.Errorf("the tenant %s has a valid administrator's key already: use it, or make another one with --again", store.System)
	}
	if err != nil {
		return "", err
	}
	return key, nil
}

// EnsureKey makes sure that the tenant exists and that the key opens it with the role, and returns the key; an empty key
// stands for a new one. The schema must be migrated. Repeating it changes nothing; a key that exists for another tenant or
// role is an error.
func EnsureKey(ctx context.Context, pool *pgxpool.Pool, tenant string, role store.Role, key string) (string, error) {
	if key == "" {
		key = newKey()
	}
	prefix, digest, err := splitKey(key)
	if err != nil {
		return "", err
	}
	access := store.New(pool)
	wanted := store.Key{Prefix: prefix, Hash: digest[:], Tenant: tenant, Role: role}
	added, err := access.AddKey(ctx, wanted)
	if err != nil || added {
		return key, err
	}
	found, err := access.FindKey(ctx, prefix)
	if err != nil {
		return "", err
	}
	if !opens(found, digest) || found.Tenant != tenant || found.Role != role {
		return "", fmt.Errorf("the API key pawl_%s_… is in use already, with another secret, tenant or role, or is not valid any more", prefix)
	}
	return key, nil
}
