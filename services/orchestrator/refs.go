package orchestrator

import (
	"errors"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// refOf takes a step's name from the wire; protovalidate has checked it.
func refOf(r *systemv1.StepRef) store.Ref {
	return store.Ref{
		RunID: idOf(r.GetRunId()), Step: plain(r.GetStep()), Shard: int(r.GetShard()), Generation: int(r.GetGeneration()),
	}
}

// idOf takes 16 bytes from the wire; protovalidate has counted them.
func idOf(b []byte) (id uuid.UUID) {
	copy(id[:], b)
	return id
}

func fenceOf(b []byte) machine.ID { return machine.ID(idOf(b)) }

// away returns the first of the errors that says that the store is away or that the caller's time is over: then the whole
// call fails, and may be repeated.
func away(errs []error) error {
	for _, err := range errs {
		if err == nil {
			continue
		}
		switch fault.CodeOf(err) {
		case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
			return err
		default:
		}
	}
	return nil
}

// refusal is what the caller of a run's event is told.
func refusal(id string, err error) error {
	if errors.Is(err, store.ErrNoRun) {
		return noRun(id)
	}
	if illegal, ok := errors.AsType[*machine.IllegalError](err); ok {
		return fault.New(faultv1.ErrorReason_ERROR_REASON_WRONG_STATE, "%s", illegal.Error()).WithMeta("run_id", id)
	}
	return err
}

func noRun(id string) error {
	return fault.New(faultv1.ErrorReason_ERROR_REASON_RUN_NOT_FOUND, "there is no run %s", id).WithMeta("run_id", id)
}
