package intake

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
)

const (
	// pagePurpose names the key of page tokens among those that replicas share.
	pagePurpose = "page_token"
	// pageTTL is how long a page token is valid.
	pageTTL = 72 * time.Hour

	// defaultPage and maxPage bound how much a list returns; the default of the steps and the journal of one run is larger.
	defaultPage    = 50
	defaultRunPage = 200
	maxPage        = 1000

	stampBytes = 8
	macBytes   = 16
)

// pageTokens makes the tokens of lists opaque: what the orchestrator gives is wrapped with the time and a MAC over the
// tenant, the list and its filters, so that a token serves nobody else and nothing else.
//
//	base64url( seconds since 1970, 8 bytes | MAC, 16 bytes | the orchestrator's token )
type pageTokens struct {
	key   []byte
	clock clock.Clock
}

// paged is the request of a list.
type paged interface {
	proto.Message
	GetPageSize() int32
	GetPageToken() string
}

// open returns the orchestrator's token in the request's; "" for the first page.
func (p pageTokens) open(tenant string, req paged) (string, error) {
	if req.GetPageToken() == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(req.GetPageToken())
	if err != nil || len(raw) < stampBytes+macBytes {
		return "", errPageToken("is not one that a list returned")
	}
	stamp, mac, inner := raw[:stampBytes], raw[stampBytes:stampBytes+macBytes], raw[stampBytes+macBytes:]
	if !hmac.Equal(mac, p.mac(tenant, req, stamp, inner)) {
		return "", errPageToken("belongs to another list, or to other filters: they must be the same for every page")
	}
	if issued := time.Unix(int64(binary.BigEndian.Uint64(stamp)), 0); p.clock.Now().After(issued.Add(pageTTL)) {
		return "", errPageToken("has expired: begin again without one")
	}
	return string(inner), nil
}

// seal wraps the orchestrator's token for the next page; "" stays "".
func (p pageTokens) seal(tenant string, req paged, inner string) string {
	if inner == "" {
		return ""
	}
	stamp := binary.BigEndian.AppendUint64(nil, uint64(p.clock.Now().Unix()))
	mac := p.mac(tenant, req, stamp, []byte(inner))
	return base64.RawURLEncoding.EncodeToString(bytes.Join([][]byte{stamp, mac, []byte(inner)}, nil))
}

// mac covers everything that must be the same for the next page: all but the page's size and token.
func (p pageTokens) mac(tenant string, req paged, stamp, inner []byte) []byte {
	filters := proto.Clone(req).ProtoReflect()
	for _, name := range []protoreflect.Name{"page_size", "page_token"} {
		filters.Clear(filters.Descriptor().Fields().ByName(name))
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(filters.Interface())
	if err != nil { // a message that came over the wire can be sent over it
		text = nil
	}
	hash := hmac.New(sha256.New, p.key)
	for _, part := range [][]byte{[]byte(tenant), []byte(filters.Descriptor().FullName()), text, stamp, inner} {
		hash.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		hash.Write(part)
	}
	return hash.Sum(nil)[:macBytes]
}

// pageSize applies the default and the maximum.
func pageSize(asked, byDefault int32) int32 {
	if asked == 0 {
		return byDefault
	}
	return min(asked, maxPage)
}

func errPageToken(message string) error {
	return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID,
		fault.Violation{Field: "page_token", Message: message})
}
