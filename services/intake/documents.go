package intake

import (
	"cmp"
	"context"
	"mime"
	"strings"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/canon"
	"pawl.internal/services/internal/fault"
)

const (
	plainText = "text/plain"
	markdown  = "text/markdown"

	// defaultExtraction is the pipeline that reads a document when the caller names none.
	defaultExtraction = "document_extract"
)

// CreateDocument stores a text. One of white space only is stored too: a run over it fails with a reason of its own.
func (s *Service) CreateDocument(
	ctx context.Context, req *pawlv1.CreateDocumentRequest,
) (*pawlv1.CreateDocumentResponse, error) {
	idempotency, err := idempotency(ctx, pawlv1.DocumentService_CreateDocument_FullMethodName, req)
	if err != nil {
		return nil, err
	}
	mediaType, err := s.checkDocument(req)
	if err == nil {
		err = s.admission.admitRate(ctx, callerOf(ctx), pawlv1.RunClass_RUN_CLASS_INTERACTIVE, 1)
	}
	if err != nil {
		found, err := s.earlier(ctx, kindDocument, idempotency, err)
		if err != nil {
			return nil, err
		}
		return &pawlv1.CreateDocumentResponse{DocumentId: found.GetResourceId(), Replayed: true}, nil
	}
	created, err := s.orchestrator.CreateDocument(ctx, &systemv1.CreateDocumentRequest{
		Tenant: callerOf(ctx).tenant, Idempotency: idempotency, Content: []byte(req.GetText()),
		MediaType: mediaType, ExternalId: req.GetExternalId(),
	})
	if err != nil {
		return nil, err
	}
	return &pawlv1.CreateDocumentResponse{DocumentId: created.GetDocumentId(), Replayed: created.GetReplayed()}, nil
}

// checkDocument returns the document's media type without parameters.
func (s *Service) checkDocument(req *pawlv1.CreateDocumentRequest) (string, error) {
	switch size := len(req.GetText()); {
	case size == 0:
		return "", fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT,
			fault.Violation{Field: "text", Message: "must not be empty"})
	case size > s.config.MaxDocumentBytes:
		return "", errTooLarge("the document", size, s.config.MaxDocumentBytes)
	}
	asked := cmp.Or(req.GetMediaType(), plainText)
	mediaType, parameters, err := mime.ParseMediaType(asked)
	charset := cmp.Or(parameters["charset"], "utf-8")
	if err != nil || mediaType != plainText && mediaType != markdown || !strings.EqualFold(charset, "utf-8") {
		return "", fault.New(faultv1.ErrorReason_ERROR_REASON_UNSUPPORTED_MEDIA_TYPE,
			"documents are %s or %s in UTF-8, not %q", plainText, markdown, asked).
			WithViolations(fault.Violation{Field: "media_type", Message: "must be text/plain or text/markdown"})
	}
	return mediaType, nil
}

// GetDocument returns what is known of a document.
func (s *Service) GetDocument(ctx context.Context, req *pawlv1.GetDocumentRequest) (*pawlv1.GetDocumentResponse, error) {
	found, err := s.orchestrator.GetDocument(ctx,
		&systemv1.GetDocumentRequest{Tenant: callerOf(ctx).tenant, DocumentId: req.GetDocumentId()})
	if err != nil {
		return nil, err
	}
	return &pawlv1.GetDocumentResponse{Document: found.GetDocument()}, nil
}

// ExtractDocument starts a run over a document's text.
func (s *Service) ExtractDocument(
	ctx context.Context, req *pawlv1.ExtractDocumentRequest,
) (*pawlv1.ExtractDocumentResponse, error) {
	idempotency, err := idempotency(ctx, pawlv1.DocumentService_ExtractDocument_FullMethodName, req)
	if err != nil {
		return nil, err
	}
	created, err := s.submitExtraction(ctx, req, idempotency)
	if created, err = s.orEarlier(ctx, kindExtract, idempotency, created, err); err != nil {
		return nil, err
	}
	return &pawlv1.ExtractDocumentResponse{
		RunId: created.GetRunId(), Status: created.GetStatus(), Replayed: created.GetReplayed(),
	}, nil
}

func (s *Service) submitExtraction(
	ctx context.Context, req *pawlv1.ExtractDocumentRequest, idempotency *systemv1.Idempotency,
) (*systemv1.CreateRunResponse, error) {
	found, err := s.orchestrator.GetDocument(ctx, &systemv1.GetDocumentRequest{
		Tenant: callerOf(ctx).tenant, DocumentId: req.GetDocumentId(), WithContent: true,
	})
	if err != nil {
		return nil, err
	}
	input, err := textInput(found.GetContent())
	if err != nil {
		return nil, err
	}
	return s.submit(ctx, submission{
		kind: kindExtract, idempotency: idempotency, pipeline: cmp.Or(req.GetPipeline(), defaultExtraction), input: input,
		entityID: found.GetDocument().GetExternalId(), documentID: req.GetDocumentId(), class: req.GetClass(),
		callbackURL: req.GetCallbackUrl(), budgetUSD: req.GetBudgetUsd(),
	})
}

// textInput is the input of a run over a text: {"text": …}.
func textInput(text []byte) ([]byte, error) {
	input := append(make([]byte, 0, len(text)+len(text)/8), `{"text":`...)
	input, err := canon.AppendString(input, string(text))
	if err != nil {
		return nil, fault.Internal(err) // only UTF-8 was stored
	}
	return append(input, '}'), nil
}
