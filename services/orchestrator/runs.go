package orchestrator

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/google/uuid"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/orchestrator/store"
)

// CreateRun stores a run, unless its idempotency key has one already.
func (s *Service) CreateRun(ctx context.Context, req *systemv1.CreateRunRequest) (*systemv1.CreateRunResponse, error) {
	n, err := s.newRun(req)
	if err != nil {
		return nil, err
	}
	err = s.store.CreateRun(ctx, n)
	switch {
	case errors.Is(err, store.ErrNoPipeline):
		return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_PIPELINE_NOT_FOUND, "there is no pipeline %s", req.GetPipeline()).
			WithMeta("pipeline", req.GetPipeline())
	case errors.Is(err, store.ErrKeyReused):
		return nil, keyReused(req.GetIdempotency().GetKey())
	case err != nil:
		return nil, err
	}
	s.metrics.runCreated(req.GetKind(), n.Replayed)
	return &systemv1.CreateRunResponse{
		RunId: n.Found.String(), Status: runStatusProto(n.Status), Replayed: n.Replayed,
	}, nil
}

// newRun takes a run from the wire.
func (s *Service) newRun(req *systemv1.CreateRunRequest) (*store.NewRun, error) {
	input, err := s.store.Codec().Document(req.GetInput())
	if err != nil {
		return nil, fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INPUT_INVALID,
			fault.Violation{Field: "input", Message: err.Error()})
	}
	document, err := documentID(req.GetDocumentId())
	if err != nil {
		return nil, err
	}
	name, version, _ := strings.Cut(req.GetPipeline(), ":")
	n := &store.NewRun{
		ID: s.ids.V7(), Tenant: req.GetTenant(),
		Key: plain(req.GetIdempotency().GetKey()), RequestDigest: req.GetIdempotency().GetRequestDigest(), Kind: req.GetKind(),
		Pipeline: plain(name), Version: plain(version), Input: input, EntityID: plain(req.GetEntityId()), DocumentID: document,
		Class: classOf(req.GetClass()), Priority: int(req.GetPriority()), Labels: plainLabels(req.GetLabels()),
		CallbackURL: plain(req.GetCallbackUrl()), Deadline: req.GetDeadline().AsDuration(),
		ConcurrencyKey: plain(req.GetConcurrencyKey()),
	}
	if req.BudgetPicoUsd != nil {
		budget := money.Pico(req.GetBudgetPicoUsd())
		n.Budget = &budget
	}
	if req.GetNotBefore() != nil {
		n.NotBefore = req.GetNotBefore().AsTime()
	}
	return n, nil
}

func documentID(text string) (uuid.UUID, error) {
	if text == "" {
		return uuid.UUID{}, nil
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return uuid.UUID{}, fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT,
			fault.Violation{Field: "document_id", Message: "must be a UUID"})
	}
	return id, nil
}

func plainLabels(labels map[string]string) map[string]string {
	cleaned := make(map[string]string, len(labels))
	for name, value := range labels {
		cleaned[plain(name)] = plain(value)
	}
	return cleaned
}

// FindSubmission returns what an idempotency key stands for.
func (s *Service) FindSubmission(ctx context.Context, req *systemv1.FindSubmissionRequest) (*systemv1.FindSubmissionResponse, error) {
	key := plain(req.GetIdempotency().GetKey())
	found, err := s.store.FindSubmission(ctx, req.GetTenant(), key)
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		return &systemv1.FindSubmissionResponse{}, nil
	case !bytes.Equal(found.RequestDigest, req.GetIdempotency().GetRequestDigest()):
		return nil, keyReused(key)
	}
	return &systemv1.FindSubmissionResponse{
		ResourceId: found.ID.String(), Kind: found.Kind, Status: runStatusProto(found.Status),
	}, nil
}

func keyReused(key string) error {
	return fault.New(faultv1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED,
		"the idempotency key %q was used before with another request", key)
}

// RecordSpend keeps what runs have spent.
func (s *Service) RecordSpend(ctx context.Context, req *systemv1.RecordSpendRequest) (*systemv1.RecordSpendResponse, error) {
	events := make([]*store.Event, len(req.GetRuns()))
	for i, r := range req.GetRuns() {
		events[i] = &store.Event{Ref: store.OfRun(idOf(r.GetRunId())), Spend: spendOf(r.GetSpend())}
	}
	for _, err := range s.store.Submit(ctx, events...) {
		if err != nil && !errors.Is(err, store.ErrNoRun) { // calls outside a run have an id of their own
			return nil, err
		}
	}
	return &systemv1.RecordSpendResponse{}, nil
}
