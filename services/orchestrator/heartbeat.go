package orchestrator

import (
	"context"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// dueSoon is how many leases before its hard timeout a step that has waited for permits gets the wait added: before, the
// row need not know of it.
const dueSoon = 2

// Heartbeat renews a runner's lease and says which of the steps it lists it must let go of.
func (s *Service) Heartbeat(ctx context.Context, req *systemv1.HeartbeatRequest) (*systemv1.HeartbeatResponse, error) {
	runner := idOf(req.GetRunnerId())
	began := s.clock.Now()
	beat := &store.Beat{Runner: runner, Description: plain(req.GetDescription())}
	beat.PermitWaits = permitWaits(req.GetHolds())
	for _, lane := range req.GetLanes() {
		if lane.GetClass() == pawlv1.RunClass_RUN_CLASS_BATCH {
			beat.BatchSlots = int(lane.GetSlots())
		} else {
			beat.InteractiveSlots = int(lane.GetSlots())
		}
	}
	failpoint.Hit("orchestrator.heartbeat.received")
	if err := s.store.Beat(ctx, beat); err != nil {
		return nil, err
	}
	failpoint.Hit("orchestrator.heartbeat.committed")
	claimedFrom := s.runners.confirm(runner, began.Add(s.config.Lease))
	stops, err := s.settleHolds(ctx, machine.ID(runner), req.GetHolds())
	if err != nil {
		return nil, err
	}
	if err := s.expireUnlisted(ctx, runner, claimedFrom, req.GetHolds()); err != nil {
		return nil, err
	}
	return &systemv1.HeartbeatResponse{Lease: durationpb.New(s.config.Lease), Stops: stops}, nil
}

// permitWaits lists the steps that wait for a permit.
func permitWaits(holds []*systemv1.Hold) []store.PermitWait {
	var waits []store.PermitWait
	for _, h := range holds {
		if p := h.GetAwaitedPermit(); p != nil {
			waits = append(waits, store.PermitWait{
				Ref: refOf(h.GetStep()), ClaimNo: int(h.GetClaimNo()), Limit: plain(p.GetLimit()), Waited: max(p.GetWaited().AsDuration(), 0),
			})
		}
	}
	return waits
}

// settleHolds compares what a runner lists with what is stored. Only what differs becomes an event: a claim that was lost
// or taken away for want of a lease is given back to its runner where that is still possible, else the runner is told why
// it must stop.
func (s *Service) settleHolds(ctx context.Context, runner machine.ID, holds []*systemv1.Hold) ([]*systemv1.Stop, error) {
	if len(holds) == 0 {
		return nil, nil
	}
	refs := refsOf(holds)
	stored, err := s.store.Holdings(ctx, refs)
	if err != nil {
		return nil, err
	}
	var events []*store.Event
	var differing []*systemv1.Hold
	for i, h := range holds {
		if row, live := stored[refs[i].AnyGeneration()]; !live || s.differs(h, refs[i], row) {
			events, differing = append(events, readoption(h, refs[i], runner)), append(differing, h)
		}
	}
	errs := s.store.Submit(ctx, events...)
	if err := away(errs); err != nil {
		return nil, err
	}
	var stops []*systemv1.Stop
	for i, e := range events {
		if reason := s.stopReason(ctx, e, errs[i]); reason != systemv1.StopReason_STOP_REASON_UNSPECIFIED {
			s.metrics.stopped(reason)
			stops = append(stops, &systemv1.Stop{Step: differing[i].GetStep(), Fence: differing[i].GetFence(), Reason: reason})
		}
	}
	return stops, nil
}

// expireUnlisted takes the steps from a runner that it claimed long ago and does not list: the answer to its claim was lost.
func (s *Service) expireUnlisted(ctx context.Context, runner uuid.UUID, claimedFrom time.Time, holds []*systemv1.Hold) error {
	lost, until, err := s.store.UnlistedSteps(ctx, runner, claimedFrom, s.config.Lease, refsOf(holds))
	if err != nil {
		return err
	}
	if err := away(s.store.Submit(ctx, expirations(lost)...)); err != nil {
		return err
	}
	s.runners.searched(runner, until)
	return nil
}

// differs reports whether the row must learn something from the hold, or the runner from the row.
func (s *Service) differs(h *systemv1.Hold, ref store.Ref, row store.Holding) bool {
	if row.Status != machine.StepRunning || row.Fence != fenceOf(h.GetFence()) || row.Generation != ref.Generation {
		return true
	}
	return h.GetPermitWait().AsDuration() > 0 && row.DueIn < dueSoon*s.config.Lease
}

func readoption(h *systemv1.Hold, ref store.Ref, runner machine.ID) *store.Event {
	return &store.Event{Ref: ref, Make: func(r machine.Ref, _ time.Time) machine.Event {
		return machine.Readopted{Claim: claimOf(h, r, runner), PermitWait: h.GetPermitWait().AsDuration()}
	}}
}

func claimOf(h *systemv1.Hold, ref machine.Ref, runner machine.ID) machine.Claim {
	return machine.Claim{Ref: ref, Fence: fenceOf(h.GetFence()), ClaimNo: int(h.GetClaimNo()), Worker: runner}
}

// stopReason is why the runner must let go of a step; unspecified if it keeps it.
func (s *Service) stopReason(ctx context.Context, e *store.Event, err error) systemv1.StopReason {
	if err != nil { // the run is gone, or cannot be read by this build: nothing that the runner does would be stored
		s.log.WarnContext(ctx, "held step is stopped", "run_id", e.RunID, "step", e.Step, "error", err)
		return systemv1.StopReason_STOP_REASON_CANCELLED
	}
	switch e.Answer {
	case machine.StopCancelled:
		return systemv1.StopReason_STOP_REASON_CANCELLED
	case machine.StopFenced:
		return systemv1.StopReason_STOP_REASON_FENCED
	case machine.StopDeadline:
		return systemv1.StopReason_STOP_REASON_DEADLINE
	case machine.StopHardTimeout:
		return systemv1.StopReason_STOP_REASON_HARD_TIMEOUT
	case machine.Applied, machine.Already, machine.Granted, machine.Gone, machine.Held:
	}
	return systemv1.StopReason_STOP_REASON_UNSPECIFIED
}

// ReleaseSteps takes steps back that their runner has not executed, and, when it leaves, its lease.
func (s *Service) ReleaseSteps(ctx context.Context, req *systemv1.ReleaseStepsRequest) (*systemv1.ReleaseStepsResponse, error) {
	runner := idOf(req.GetRunnerId())
	events := make([]*store.Event, len(req.GetHolds()))
	for i, h := range req.GetHolds() {
		events[i] = &store.Event{Ref: refOf(h.GetStep()), Make: func(r machine.Ref, _ time.Time) machine.Event {
			return machine.Released{Claim: claimOf(h, r, machine.ID(runner))}
		}}
	}
	released, err := s.release(ctx, events)
	if err != nil {
		return nil, err
	}
	failpoint.Hit("orchestrator.release.committed")
	if req.GetLeaving() {
		s.runners.forget(runner)
		unlisted, err := s.releaseUnlisted(ctx, runner, req.GetHolds())
		if err != nil {
			return nil, err
		}
		released += unlisted
		if err := s.store.EndLease(ctx, runner); err != nil {
			return nil, err
		}
	}
	return &systemv1.ReleaseStepsResponse{Released: released}, nil
}

// release carries out the events, and counts those that took a step back.
func (s *Service) release(ctx context.Context, events []*store.Event) (released int32, err error) {
	errs := s.store.Submit(ctx, events...)
	if err := away(errs); err != nil {
		return 0, err
	}
	for i, e := range events {
		if errs[i] == nil && e.Answer == machine.Applied {
			released++
		}
	}
	return released, nil
}

// releaseUnlisted takes back what a leaving runner was granted and does not list: the answers did not reach it any more, so
// that it has begun nothing of that. With the end of its lease these steps would count as lost with it.
func (s *Service) releaseUnlisted(ctx context.Context, runner uuid.UUID, holds []*systemv1.Hold) (int32, error) {
	granted, _, err := s.store.UnlistedSteps(ctx, runner, time.Time{}, 0, refsOf(holds))
	if err != nil {
		return 0, err
	}
	events := make([]*store.Event, len(granted))
	for i, g := range granted {
		events[i] = &store.Event{Ref: g.Ref, Make: func(r machine.Ref, _ time.Time) machine.Event {
			return machine.Released{Claim: machine.Claim{Ref: r, Fence: g.Fence, Worker: machine.ID(runner)}}
		}}
	}
	return s.release(ctx, events)
}

// refsOf names the steps that a runner lists.
func refsOf(holds []*systemv1.Hold) []store.Ref {
	refs := make([]store.Ref, len(holds))
	for i, h := range holds {
		refs[i] = refOf(h.GetStep())
	}
	return refs
}
