package intake

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
)

// matchHeader is the metadata key under which If-Match arrives.
const matchHeader = "if-match"

// CancelRun stops a run.
func (s *Service) CancelRun(ctx context.Context, req *pawlv1.CancelRunRequest) (*pawlv1.CancelRunResponse, error) {
	etag, err := etagOf(ctx, req.GetEtag())
	if err != nil {
		return nil, err
	}
	who := callerOf(ctx)
	cancelled, err := s.orchestrator.CancelRun(ctx, &systemv1.CancelRunRequest{
		Tenant: who.tenant, RunId: req.GetRunId(), Actor: who.actor(), Reason: req.GetReason(),
		Undo: req.Undo, Etag: etag, //nolint:protogetter // absent is not false
	})
	if err != nil {
		return nil, err
	}
	return &pawlv1.CancelRunResponse{Run: cancelled.GetRun()}, nil
}

// RetryRun runs what failed again.
func (s *Service) RetryRun(ctx context.Context, req *pawlv1.RetryRunRequest) (*pawlv1.RetryRunResponse, error) {
	etag, err := etagOf(ctx, req.GetEtag())
	if err != nil {
		return nil, err
	}
	budget, broken := budgetOf(req.GetBudgetUsd())
	if req.Shard != nil && req.GetStep() == "" {
		broken = append(broken, fault.Violation{Field: "step", Message: "must be given with shard"})
	}
	if len(broken) > 0 {
		return nil, fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, broken...)
	}
	who := callerOf(ctx)
	retried, err := s.orchestrator.RetryRun(ctx, &systemv1.RetryRunRequest{
		Tenant: who.tenant, RunId: req.GetRunId(), Actor: who.actor(), Reason: req.GetReason(),
		Step: req.GetStep(), Shard: req.Shard, BudgetPicoUsd: budget, Etag: etag, //nolint:protogetter // absent is not 0
	})
	if err != nil {
		return nil, err
	}
	return &pawlv1.RetryRunResponse{Run: retried.GetRun()}, nil
}

// RerunRun runs a step and all that depend on it again.
func (s *Service) RerunRun(ctx context.Context, req *pawlv1.RerunRunRequest) (*pawlv1.RerunRunResponse, error) {
	etag, err := etagOf(ctx, req.GetEtag())
	if err != nil {
		return nil, err
	}
	who := callerOf(ctx)
	again, err := s.orchestrator.RerunRun(ctx, &systemv1.RerunRunRequest{
		Tenant: who.tenant, RunId: req.GetRunId(), Actor: who.actor(), Reason: req.GetReason(),
		FromStep: req.GetFromStep(), KeepEffects: req.GetKeepEffects(), Etag: etag,
	})
	if err != nil {
		return nil, err
	}
	return &pawlv1.RerunRunResponse{Run: again.GetRun()}, nil
}

// PromoteRun moves a run to another lane.
func (s *Service) PromoteRun(ctx context.Context, req *pawlv1.PromoteRunRequest) (*pawlv1.PromoteRunResponse, error) {
	etag, err := etagOf(ctx, req.GetEtag())
	if err != nil {
		return nil, err
	}
	who := callerOf(ctx)
	promoted, err := s.orchestrator.PromoteRun(ctx, &systemv1.PromoteRunRequest{
		Tenant: who.tenant, RunId: req.GetRunId(), Actor: who.actor(), Reason: req.GetReason(),
		Class: classOf(req.GetClass()), Etag: etag,
	})
	if err != nil {
		return nil, err
	}
	return &pawlv1.PromoteRunResponse{Run: promoted.GetRun()}, nil
}

// etagOf returns the etag that the call is bound to: in the request or in the header If-Match, with quotes or without; empty
// for a call that is bound to none, which "*" says too.
func etagOf(ctx context.Context, field string) (string, error) {
	field = unquoteEtag(field)
	headers := metadata.ValueFromIncomingContext(ctx, matchHeader)
	if len(headers) == 0 {
		return field, nil
	}
	header := unquoteEtag(strings.TrimSpace(headers[0]))
	switch {
	case len(headers) > 1 || strings.Contains(header, ","):
		return "", badEtag("the header If-Match must name one etag")
	case header == "*":
		return field, nil
	case field != "" && field != header:
		return "", badEtag("the field and the header If-Match differ: give one of them")
	}
	return header, nil
}

func unquoteEtag(text string) string {
	if inner, ok := strings.CutPrefix(text, `"`); ok {
		if inner, ok = strings.CutSuffix(inner, `"`); ok {
			return inner
		}
	}
	return text
}

func badEtag(message string) error {
	return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, fault.Violation{Field: "etag", Message: message})
}
