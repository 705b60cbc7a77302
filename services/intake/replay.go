package intake

import (
	"context"

	"google.golang.org/grpc/codes"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/fault"
)

// earlier looks for what was made under a key when a request has been refused: what was accepted once stays accepted, also
// when the rules have become stricter since, or the tenant is over its limits now. Nil says that the key is new, and the refusal stands. Requests that pass never
// come here.
func (s *Service) earlier(
	ctx context.Context, kind string, key *systemv1.Idempotency, refused error,
) (*systemv1.FindSubmissionResponse, error) {
	switch fault.CodeOf(refused) {
	case codes.InvalidArgument, codes.NotFound, codes.ResourceExhausted:
	default:
		return nil, refused
	}
	found, err := s.orchestrator.FindSubmission(ctx, &systemv1.FindSubmissionRequest{
		Tenant: callerOf(ctx).tenant, Idempotency: key,
	})
	switch {
	case fault.CodeOf(err) == codes.Unimplemented: // the orchestrator is an older one
		return nil, refused
	case err != nil:
		return nil, err
	case found.GetResourceId() == "" || found.GetKind() != kind:
		return nil, refused
	}
	return found, nil
}

// orEarlier gives the answer to a submission, or that to an earlier one under its key.
func (s *Service) orEarlier(
	ctx context.Context, kind string, key *systemv1.Idempotency, created *systemv1.CreateRunResponse, err error,
) (*systemv1.CreateRunResponse, error) {
	if err == nil {
		return created, nil
	}
	found, err := s.earlier(ctx, kind, key, err)
	if err != nil {
		return nil, err
	}
	s.metrics.submitted(kind, true)
	return &systemv1.CreateRunResponse{RunId: found.GetResourceId(), Status: found.GetStatus(), Replayed: true}, nil
}
