package orchestrator

import (
	"context"
	"time"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// WakeSteps ends the waits of parked steps. Steps that do not wait, or not any more, are left as they are.
func (s *Service) WakeSteps(ctx context.Context, req *systemv1.WakeStepsRequest) (*systemv1.WakeStepsResponse, error) {
	events := make([]*store.Event, len(req.GetSteps()))
	for i, step := range req.GetSteps() {
		events[i] = &store.Event{
			Ref:  refOf(step),
			Make: func(ref machine.Ref, _ time.Time) machine.Event { return machine.Woken{Ref: ref} },
		}
	}
	errs := s.store.Submit(ctx, events...)
	if err := away(errs); err != nil {
		return nil, err
	}
	woken := int32(0)
	for _, err := range errs {
		if err == nil {
			woken++
		}
	}
	return &systemv1.WakeStepsResponse{Woken: woken}, nil
}
