package intake

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/money"
)

// The kinds of things that an idempotency key stands for, as the orchestrator keeps them.
const (
	kindRun      = "run"
	kindJob      = "job"
	kindExtract  = "extract"
	kindDocument = "document"
	kindBatch    = "batch"
)

// inputField is where callers find the run's input in what they sent.
const inputField = "input"

// maxInputBytes keeps a run's input within one message between services.
const maxInputBytes = 31 << 20

// submission is what the ways of starting a run have in common.
type submission struct {
	kind        string
	idempotency *systemv1.Idempotency
	// pipeline is a name, or name:version.
	pipeline string
	// input is JSON, and inputField the name that its parts have for the caller.
	input       []byte
	entityID    string
	documentID  string
	class       pawlv1.RunClass
	priority    int32
	labels      map[string]string
	callbackURL string
	budgetUSD   string
	deadline    *durationpb.Duration
	notBefore   *timestamppb.Timestamp
}

// submit checks a submission against its pipeline and hands it to the orchestrator: one call when the pipeline is known.
func (s *Service) submit(ctx context.Context, sub submission) (*systemv1.CreateRunResponse, error) {
	pipeline, budget, err := s.checked(ctx, sub)
	if err != nil {
		return nil, err
	}
	key, err := pipeline.concurrencyKey(sub.input)
	if err != nil {
		return nil, err
	}
	who := callerOf(ctx)
	if err := s.admission.admit(ctx, who, sub.class, 1); err != nil {
		return nil, err
	}
	failpoint.Hit("intake.submit.checked")
	created, err := s.orchestrator.CreateRun(ctx, &systemv1.CreateRunRequest{
		Tenant: who.tenant, Idempotency: sub.idempotency, Pipeline: pipeline.ref, Input: sub.input,
		EntityId: sub.entityID, DocumentId: sub.documentID, Class: classOf(sub.class), Priority: sub.priority,
		Labels: sub.labels, CallbackUrl: sub.callbackURL, BudgetPicoUsd: budget, Deadline: sub.deadline, Kind: sub.kind,
		NotBefore: sub.notBefore, ConcurrencyKey: key,
	})
	if err != nil || created.GetReplayed() { // nothing was added
		s.admission.backlog.giveBack(lane{who.tenant, classOf(sub.class)}, 1)
	}
	if err != nil {
		return nil, err
	}
	failpoint.Hit("intake.submit.created")
	s.metrics.submitted(sub.kind, created.GetReplayed())
	return created, nil
}

// checked refuses a submission that breaks a rule, and returns its pipeline and its budget; nil is the pipeline's own.
func (s *Service) checked(ctx context.Context, sub submission) (*registered, *int64, error) {
	violations := checkCallbackURL(sub.callbackURL)
	budget, broken := budgetOf(sub.budgetUSD)
	violations = append(violations, broken...)
	if violations = append(violations, s.checkNotBefore(sub.notBefore)...); len(violations) > 0 {
		return nil, nil, fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, violations...)
	}
	if len(sub.input) > maxInputBytes {
		return nil, nil, errTooLarge("the input, written as JSON,", len(sub.input), maxInputBytes)
	}
	pipeline, err := s.catalog.find(ctx, callerOf(ctx).tenant, sub.pipeline)
	if err != nil {
		return nil, nil, err
	}
	return pipeline, budget, pipeline.checkInput(sub.input)
}

// classOf applies the default lane.
func classOf(asked pawlv1.RunClass) pawlv1.RunClass {
	if asked == pawlv1.RunClass_RUN_CLASS_UNSPECIFIED {
		return pawlv1.RunClass_RUN_CLASS_INTERACTIVE
	}
	return asked
}

// budgetOf reads a budget; an empty one is the pipeline's own.
func budgetOf(text string) (*int64, []fault.Violation) {
	if text == "" {
		return nil, nil
	}
	amount, err := money.Parse(text)
	if err != nil {
		return nil, []fault.Violation{{Field: "budget_usd", Message: "must be an amount such as 0.50, and at most 9223372"}}
	}
	return proto.Int64(int64(amount)), nil
}

// longestDelay is how far ahead a run's begin may be.
const longestDelay = 366 * 24 * time.Hour

// checkNotBefore refuses a begin that is no time, or too far ahead; one that is past is no fault.
func (s *Service) checkNotBefore(t *timestamppb.Timestamp) []fault.Violation {
	if t == nil || t.IsValid() && t.AsTime().Sub(s.clock.Now()) <= longestDelay {
		return nil
	}
	return []fault.Violation{{Field: "not_before", Message: "must be a time that is at most 366 days ahead"}}
}

// checkSize bounds requests that did not pass the limit of the REST API.
func (s *Service) checkSize(req proto.Message) error {
	if size := proto.Size(req); size > s.config.MaxBodyBytes {
		return errTooLarge("the request", size, s.config.MaxBodyBytes)
	}
	return nil
}

func errTooLarge(what string, size, limit int) error {
	return fault.New(faultv1.ErrorReason_ERROR_REASON_BODY_TOO_LARGE,
		"%s has %d bytes, and at most %d are allowed", what, size, limit)
}

// checkInput refuses an input that breaks the pipeline's input schema, with the path of every part that does.
func (r *registered) checkInput(input []byte) error {
	broken := r.compiled.ValidateInput(input)
	if len(broken) == 0 {
		return nil
	}
	violations := make([]fault.Violation, len(broken))
	for i, v := range broken {
		violations[i] = fault.Violation{Field: inputField + dotted(v.Path), Message: v.Message}
	}
	return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INPUT_INVALID, violations...).WithMeta("pipeline", r.ref)
}

// concurrencyKey evaluates the key under which the run counts against the pipeline's limit of runs.
func (r *registered) concurrencyKey(input []byte) (string, error) {
	key, err := r.compiled.ConcurrencyKey(input)
	if err != nil {
		return "", fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INPUT_INVALID,
			fault.Violation{Field: inputField, Message: err.Error()}).WithMeta("pipeline", r.ref)
	}
	return key, nil
}

// dotted writes a JSON Pointer as the paths of requests are written: /pages/2/title is .pages[2].title.
func dotted(pointer string) string {
	var path strings.Builder
	for _, key := range strings.Split(pointer, "/")[1:] {
		key = strings.ReplaceAll(strings.ReplaceAll(key, "~1", "/"), "~0", "~")
		if _, err := strconv.ParseUint(key, 10, 32); err == nil {
			fmt.Fprintf(&path, "[%s]", key)
			continue
		}
		path.WriteString("." + key)
	}
	return path.String()
}
