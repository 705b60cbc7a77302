package llmgateway

import (
	"context"

	"github.com/google/uuid"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/redact"
	"pawl.internal/services/llmgateway/store"
)

// What the call log keeps of requests.
const (
	// logMasked keeps them with personal data and secrets masked.
	logMasked = "masked"
	// logNone keeps nothing of them, for whoever must not keep prompts.
	logNone = "none"
)

// question is what is stored of a call. The key is over the request as it came; what is kept of that is for people only, and
// nothing reads it again.
func (s *Service) question(a *ask) store.Question {
	if s.logRequests == logNone {
		return a.question([]byte("null"))
	}
	masked, err := redact.MaskJSON(a.request)
	if err != nil { // it is canonical JSON; but never keep what could not be masked
		masked = []byte("null")
	}
	return a.question(masked)
}

// ListCalls returns the call log of a run.
func (s *Service) ListCalls(ctx context.Context, req *systemv1.ListCallsRequest) (*systemv1.ListCallsResponse, error) {
	calls, err := s.store.ListCalls(ctx, req.GetTenant(), uuid.UUID(req.GetRunId()))
	if err != nil {
		return nil, err
	}
	return &systemv1.ListCallsResponse{Calls: calls}, nil
}

// GetCall returns one question with everything that is stored of it.
func (s *Service) GetCall(ctx context.Context, req *systemv1.GetCallRequest) (*systemv1.GetCallResponse, error) {
	key := store.Key{RunID: uuid.UUID(req.GetRunId()), Digest: [32]byte(req.GetCallKey())}
	call, err := s.store.GetCall(ctx, req.GetTenant(), key)
	if err != nil {
		return nil, err
	}
	if call == nil {
		return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND, "the run has no such model call")
	}
	return &systemv1.GetCallResponse{Call: call}, nil
}
