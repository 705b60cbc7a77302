package intake

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/fault"
)

// rotateOverlap is how long a key that was replaced stays valid when nobody says otherwise.
const rotateOverlap = 24 * time.Hour

// CreateKey makes a key. Its secret is in the answer, and nowhere else.
func (s *Service) CreateKey(ctx context.Context, req *pawlv1.CreateKeyRequest) (*pawlv1.CreateKeyResponse, error) {
	who := callerOf(ctx)
	if err := who.maySee(req.GetTenantId()); err != nil {
		return nil, err
	}
	expiry, err := s.expiryOf(req)
	if err != nil {
		return nil, err
	}
	key := newKey()
	prefix, digest, err := splitKey(key)
	if err != nil { // it was made a moment ago
		return nil, fault.Internal(err)
	}
	wanted := store.NewKey{Prefix: prefix, Hash: digest[:], Tenant: req.GetTenantId(), Role: roleOf(req.GetRole()), Note: req.GetNote()}
	if expiry != nil {
		wanted.Expiry = *expiry
	}
	made, err := s.store.CreateKey(ctx, wanted, who.deed(req.GetReason()))
	if err != nil {
		return nil, nameTenant(err, req.GetTenantId())
	}
	return &pawlv1.CreateKeyResponse{ApiKey: key, Key: keyOf(made)}, nil
}

// expiring is a request that says when a new key stops.
type expiring interface {
	GetExpiresAt() *timestamppb.Timestamp
	GetTtl() *durationpb.Duration
}

// expiryOf is nil when the request does not say.
func (s *Service) expiryOf(req expiring) (*store.Expiry, error) {
	if ttl := req.GetTtl(); ttl != nil {
		return &store.Expiry{After: ttl.AsDuration()}, nil
	}
	at := req.GetExpiresAt()
	if at == nil {
		return nil, nil //nolint:nilnil // it does not say
	}
	if !at.IsValid() || !at.AsTime().After(s.clock.Now()) {
		return nil, fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT,
			fault.Violation{Field: "expires_at", Message: "must be a time to come"})
	}
	return &store.Expiry{At: new(at.AsTime())}, nil
}

// ListKeys returns a page of a tenant's keys.
func (s *Service) ListKeys(ctx context.Context, req *pawlv1.ListKeysRequest) (*pawlv1.ListKeysResponse, error) {
	who := callerOf(ctx)
	if err := who.maySee(req.GetTenantId()); err != nil {
		return nil, err
	}
	token, err := s.pages.open(who.tenant, req)
	if err != nil {
		return nil, err
	}
	after := store.FirstKeys()
	if token != "" {
		if err := json.Unmarshal([]byte(token), &after); err != nil { // it was sealed by this program
			return nil, fault.Internal(err)
		}
	}
	size := pageSize(req.GetPageSize(), defaultPage)
	found, err := s.store.ListKeys(ctx, req.GetTenantId(), after, size+1)
	if err != nil {
		return nil, err
	}
	page, next := &pawlv1.ListKeysResponse{}, ""
	if len(found) > int(size) {
		found = found[:size]
		place, err := json.Marshal(store.KeyPlace{CreatedAt: found[size-1].CreatedAt, Prefix: found[size-1].Prefix})
		if err != nil {
			return nil, fault.Internal(err) // times and texts always encode
		}
		next = string(place)
	}
	for _, each := range found {
		page.Keys = append(page.Keys, keyOf(each))
	}
	page.NextPageToken = s.pages.seal(who.tenant, req, next)
	return page, nil
}

// RevokeKey ends a key: here at once, at other replicas when they next look (keyTTL).
func (s *Service) RevokeKey(ctx context.Context, req *pawlv1.RevokeKeyRequest) (*pawlv1.RevokeKeyResponse, error) {
	who := callerOf(ctx)
	if err := s.mayManage(who, req.GetTenantId(), req.GetPrefix()); err != nil {
		return nil, err
	}
	revoked, err := s.store.RevokeKey(ctx, req.GetTenantId(), req.GetPrefix(), who.deed(req.GetReason()))
	if err != nil {
		return nil, namePrefix(err, req.GetPrefix())
	}
	s.keys.drop(func(c caller) bool { return c.keyPrefix == revoked.Prefix })
	return &pawlv1.RevokeKeyResponse{Key: keyOf(revoked)}, nil
}

// RotateKey makes a key that replaces another one.
func (s *Service) RotateKey(ctx context.Context, req *pawlv1.RotateKeyRequest) (*pawlv1.RotateKeyResponse, error) {
	who := callerOf(ctx)
	if err := s.mayManage(who, req.GetTenantId(), req.GetPrefix()); err != nil {
		return nil, err
	}
	expiry, err := s.expiryOf(req)
	if err != nil {
		return nil, err
	}
	key := newKey()
	prefix, digest, err := splitKey(key)
	if err != nil { // it was made a moment ago
		return nil, fault.Internal(err)
	}
	rotation := store.Rotation{Prefix: prefix, Hash: digest[:], Overlap: rotateOverlap, Expiry: expiry}
	if req.GetOverlap() != nil {
		rotation.Overlap = req.GetOverlap().AsDuration()
	}
	made, replaced, err := s.store.RotateKey(ctx, req.GetTenantId(), req.GetPrefix(), rotation, who.deed(req.GetReason()))
	if err != nil {
		return nil, namePrefix(err, req.GetPrefix())
	}
	s.keys.drop(func(c caller) bool { return c.keyPrefix == replaced.Prefix })
	return &pawlv1.RotateKeyResponse{ApiKey: key, Key: keyOf(made), Replaced: keyOf(replaced)}, nil
}

// mayManage checks that the caller may see the tenant and that the prefix is one that a key can have.
func (s *Service) mayManage(who caller, tenant, prefix string) error {
	if err := who.maySee(tenant); err != nil {
		return err
	}
	if !prefixForm.MatchString(prefix) {
		return errNoKey(prefix)
	}
	return nil
}

// namePrefix says which key is not there, or not valid any more.
func namePrefix(err error, prefix string) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return errNoKey(prefix)
	case errors.Is(err, store.ErrEnded):
		return fault.New(faultv1.ErrorReason_ERROR_REASON_WRONG_STATE,
			"the API key pawl_%s_… is not valid any more: make a new one", prefix).WithMeta("prefix", prefix)
	default:
		return err
	}
}

func errNoKey(prefix string) error {
	return fault.New(faultv1.ErrorReason_ERROR_REASON_API_KEY_NOT_FOUND, "the tenant has no API key pawl_%s_…", prefix).
		WithMeta("prefix", prefix)
}

// keyOf is a key as the API shows it.
func keyOf(k store.KeyInfo) *pawlv1.ApiKey {
	return &pawlv1.ApiKey{
		Prefix: k.Prefix, TenantId: k.Tenant, Role: keyRole(k.Role), Note: k.Note, CreatedBy: k.CreatedBy,
		CreatedAt: timestamppb.New(k.CreatedAt), ExpiresAt: timeOf(k.ExpiresAt), RevokedAt: timeOf(k.RevokedAt),
		LastUsedAt: timeOf(k.LastUsedAt),
	}
}

func timeOf(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}

// roleOf and keyRole translate roles; what is unknown becomes the role that may do nothing.
func roleOf(role pawlv1.KeyRole) store.Role {
	for _, each := range store.Roles() {
		if keyRole(each) == role {
			return each
		}
	}
	return ""
}

func keyRole(role store.Role) pawlv1.KeyRole {
	switch role {
	case store.RoleViewer:
		return pawlv1.KeyRole_KEY_ROLE_VIEWER
	case store.RoleClient:
		return pawlv1.KeyRole_KEY_ROLE_CLIENT
	case store.RoleOperator:
		return pawlv1.KeyRole_KEY_ROLE_OPERATOR
	case store.RoleAdmin:
		return pawlv1.KeyRole_KEY_ROLE_ADMIN
	default:
		return pawlv1.KeyRole_KEY_ROLE_UNSPECIFIED
	}
}
