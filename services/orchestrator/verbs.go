package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// verb is what the requests of people about a run have in common.
type verb interface {
	GetTenant() string
	GetRunId() string
	GetActor() string
	GetReason() string
	GetEtag() string
}

// order is what a verb comes to: an event of the machine about the run, or about a step or shard of it.
type order struct {
	event machine.Kind
	// step is empty for the run itself; field is what the request calls it.
	step, field string
	shard       int
	asked       store.Asked
	make        func(by machine.Actor, ref machine.Ref) machine.Event
}

// CancelRun stops a run. What has ended stays as it is.
func (s *Service) CancelRun(ctx context.Context, req *systemv1.CancelRunRequest) (*systemv1.CancelRunResponse, error) {
	undo := req.Undo //nolint:protogetter // absent is not false
	run, err := s.decide(ctx, req, order{
		event: machine.KindCancelRequested, shard: store.Whole, asked: store.Asked{Undo: undo},
		make: func(by machine.Actor, _ machine.Ref) machine.Event {
			return machine.CancelRequested{Actor: by, Undo: undo}
		},
	})
	if err != nil {
		return nil, err
	}
	return &systemv1.CancelRunResponse{Run: run}, nil
}

// RetryRun runs what has failed, or waits for a person, again with the same data.
func (s *Service) RetryRun(ctx context.Context, req *systemv1.RetryRunRequest) (*systemv1.RetryRunResponse, error) {
	o := order{
		event: machine.KindOperatorRetry, step: plain(req.GetStep()), field: "step", shard: store.Whole,
		make: func(by machine.Actor, ref machine.Ref) machine.Event {
			return machine.OperatorRetry{Actor: by, Ref: ref, BudgetRaised: req.BudgetPicoUsd != nil}
		},
	}
	if req.Shard != nil {
		o.shard = int(req.GetShard())
	}
	if req.BudgetPicoUsd != nil {
		budget := money.Pico(req.GetBudgetPicoUsd())
		o.asked.Budget = &budget
	}
	run, err := s.decide(ctx, req, o)
	if err != nil {
		return nil, err
	}
	return &systemv1.RetryRunResponse{Run: run}, nil
}

// RerunRun runs a step and all that depend on it again, in a new generation.
func (s *Service) RerunRun(ctx context.Context, req *systemv1.RerunRunRequest) (*systemv1.RerunRunResponse, error) {
	run, err := s.decide(ctx, req, order{
		event: machine.KindRerunFrom, step: plain(req.GetFromStep()), field: "from_step", shard: store.Whole,
		asked: store.Asked{KeepEffects: req.GetKeepEffects()},
		make: func(by machine.Actor, ref machine.Ref) machine.Event {
			return machine.RerunFrom{Actor: by, Step: ref.Step, Generation: ref.Generation, KeepEffects: req.GetKeepEffects()}
		},
	})
	if err != nil {
		return nil, err
	}
	return &systemv1.RerunRunResponse{Run: run}, nil
}

// PromoteRun moves a run to another lane.
func (s *Service) PromoteRun(ctx context.Context, req *systemv1.PromoteRunRequest) (*systemv1.PromoteRunResponse, error) {
	class := classOf(req.GetClass())
	run, err := s.decide(ctx, req, order{
		event: machine.KindPromoted, shard: store.Whole, asked: store.Asked{Class: class},
		make: func(by machine.Actor, _ machine.Ref) machine.Event { return machine.Promoted{Actor: by, Class: class} },
	})
	if err != nil {
		return nil, err
	}
	return &systemv1.PromoteRunResponse{Run: run}, nil
}

// decide carries out what a person has decided about a run, and returns the run as it then is.
func (s *Service) decide(ctx context.Context, req verb, o order) (*pawlv1.Run, error) {
	e, err := eventOf(req, o)
	if err != nil {
		return nil, err
	}
	decision := *e.Decision
	err = s.store.Submit(ctx, e)[0]
	if changed, ok := errors.AsType[*store.ChangedError](err); ok {
		err = s.unlessRepeated(ctx, e.Ref, &decision, changed)
	}
	if err != nil && !o.moot(err) {
		return nil, o.refusal(req.GetRunId(), err)
	}
	shown, err := s.readRun(ctx, req.GetTenant(), req.GetRunId())
	if err != nil {
		return nil, err
	}
	return shown.GetRun(), nil
}

// moot reports whether the refusal says that there is nothing left to do: a run that has ended need not be stopped.
func (o order) moot(refused error) bool {
	illegal, ok := errors.AsType[*machine.IllegalError](refused)
	return ok && o.event == machine.KindCancelRequested && machine.RunStatus(illegal.State).Terminal()
}

// eventOf makes an event of what a person has decided.
func eventOf(req verb, o order) (*store.Event, error) {
	id, err := uuid.Parse(req.GetRunId())
	if err != nil {
		return nil, noRun(req.GetRunId())
	}
	var version int64
	if etag := req.GetEtag(); etag != "" {
		if version, err = strconv.ParseInt(etag, 10, 64); err != nil || version < 1 {
			return nil, fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT,
				fault.Violation{Field: "etag", Message: fmt.Sprintf("must be the etag of a run as it was shown, not %q", etag)})
		}
	}
	actor := machine.Actor{Name: plain(req.GetActor()), Comment: plain(req.GetReason())}
	return &store.Event{
		Ref:    store.Ref{RunID: id, Step: o.step, Shard: o.shard, Generation: store.CurrentGeneration},
		Tenant: req.GetTenant(),
		Make:   func(ref machine.Ref, _ time.Time) machine.Event { return o.make(actor, ref) },
		Decision: &store.Decision{
			Actor: actor.Name, Action: string(o.event), Reason: actor.Comment, IfVersion: version, Asked: o.asked,
		},
	}, nil
}

// unlessRepeated returns nil when the decision was carried out before: its answer was lost, and the caller asks again.
// Otherwise it says what has changed, and who acted last.
func (s *Service) unlessRepeated(ctx context.Context, about store.Ref, d *store.Decision, changed *store.ChangedError) error {
	took, err := s.store.TookDecision(ctx, about, d)
	if err != nil || took {
		return err
	}
	last, err := s.store.LastDecision(ctx, about.RunID)
	if err != nil {
		return err
	}
	conflict := fault.New(faultv1.ErrorReason_ERROR_REASON_ETAG_MISMATCH,
		"the run has changed since it had the etag %d: it is %s now", d.IfVersion, changed.Status).
		WithMeta("run_id", about.RunID.String()).WithMeta("status", string(changed.Status))
	if last != nil {
		conflict.Message += fmt.Sprintf("; the last decision about it was %s by %s at %s", last.Action, last.Actor,
			last.At.UTC().Format(time.RFC3339))
		conflict = conflict.WithMeta("last_action", last.Action).WithMeta("last_actor", last.Actor)
	}
	return conflict
}

// refusal is what the caller of a verb is told.
func (o order) refusal(run string, err error) error {
	if unknown, ok := errors.AsType[*store.NoStepError](err); ok {
		return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, fault.Violation{
			Field: o.field, Message: fmt.Sprintf("must be a step of the pipeline (%s), not %q", strings.Join(unknown.Steps, ", "), unknown.Step),
		})
	}
	if low, ok := errors.AsType[*store.BudgetError](err); ok {
		return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT,
			fault.Violation{Field: "budget_usd", Message: whyTooLow(low)})
	}
	if stale, ok := errors.AsType[*machine.StaleError](err); ok {
		return fault.New(faultv1.ErrorReason_ERROR_REASON_WRONG_STATE, "%s is not possible: %s", stale.Event, stale.Why).WithMeta("run_id", run)
	}
	if illegal, ok := errors.AsType[*machine.IllegalError](err); ok {
		f := fault.New(faultv1.ErrorReason_ERROR_REASON_WRONG_STATE, "%s", illegal.Error())
		if illegal.Why == "" {
			f.Message += o.instead(machine.RunStatus(illegal.State))
		}
		return f.WithMeta("run_id", run).WithMeta("status", illegal.State)
	}
	return refusal(run, err)
}

func whyTooLow(low *store.BudgetError) string {
	if low.Budget == nil {
		return "must be left out: the run has no limit"
	}
	return fmt.Sprintf("must be higher than the budget of %s and than the %s that are spent", low.Budget, low.Spent)
}

// instead says what would be right where a run's state does not allow the verb.
func (o order) instead(state machine.RunStatus) string {
	switch {
	case o.event == machine.KindRerunFrom:
		return ": wait until it has ended or waits for a person, or cancel it first"
	case state == machine.RunDone || state == machine.RunCancelled:
		return ": run it again from a step instead (rerun)"
	default:
		return ""
	}
}
