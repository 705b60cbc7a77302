package orchestrator

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/orchestrator/store"
)

// CreateDocument stores a text, unless its idempotency key has one already.
func (s *Service) CreateDocument(ctx context.Context, req *systemv1.CreateDocumentRequest) (*systemv1.CreateDocumentResponse, error) {
	key := plain(req.GetIdempotency().GetKey())
	id, replayed, err := s.store.CreateDocument(ctx, req.GetTenant(), key, req.GetIdempotency().GetRequestDigest(),
		store.TextDocument{
			ID: s.ids.V7(), ExternalID: plain(req.GetExternalId()), MediaType: plain(req.GetMediaType()), Content: req.GetContent(),
		})
	if errors.Is(err, store.ErrKeyReused) {
		return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED,
			"the idempotency key %q was used before with another request", key)
	}
	if err != nil {
		return nil, err
	}
	return &systemv1.CreateDocumentResponse{DocumentId: id.String(), Replayed: replayed}, nil
}

// GetDocument returns a tenant's document.
func (s *Service) GetDocument(ctx context.Context, req *systemv1.GetDocumentRequest) (*systemv1.GetDocumentResponse, error) {
	id, err := uuid.Parse(req.GetDocumentId())
	if err != nil {
		return nil, noDocument(req.GetDocumentId())
	}
	d, err := s.store.ReadDocument(ctx, req.GetTenant(), id, req.GetWithContent())
	if errors.Is(err, store.ErrNoDocument) {
		return nil, noDocument(req.GetDocumentId())
	}
	if err != nil {
		return nil, err
	}
	return &systemv1.GetDocumentResponse{
		Document: &pawlv1.Document{
			DocumentId: d.ID.String(), ExternalId: d.ExternalID, MediaType: d.MediaType, Bytes: d.Bytes,
			Sha256: hex.EncodeToString(d.SHA256), CreatedAt: timestamppb.New(d.CreatedAt),
		},
		Content: d.Content,
	}, nil
}

func noDocument(id string) error {
	return fault.New(faultv1.ErrorReason_ERROR_REASON_DOCUMENT_NOT_FOUND, "there is no document %s", id)
}
