package intake

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
)

const (
	// watchPoll is how often a watcher looks by itself while events arrive, in case one was lost; watchPollBlind while none
	// can.
	watchPoll      = 5 * time.Second
	watchPollBlind = time.Second
	// watchGap is the least time between two looks: a fan-out has more events than anybody can follow.
	watchGap = 50 * time.Millisecond
	// watchLook bounds one look.
	watchLook = 5 * time.Second
)

// WatchRun sends the run now and after every change, until it has ended.
func (s *Service) WatchRun(req *pawlv1.WatchRunRequest, stream pawlv1.RunService_WatchRunServer) error {
	s.metrics.watchers.Inc()
	defer s.metrics.watchers.Dec()
	return s.watch(stream.Context(), req.GetRunId(), func(run *pawlv1.Run) error {
		return stream.Send(&pawlv1.WatchRunResponse{Run: run})
	})
}

// watch sends the run's states until the last. It goes by what is, not by what happened: a state that came and went between
// two looks is not sent. Once it has begun, it sits out the time in which nobody can say how the run is.
func (s *Service) watch(ctx context.Context, id string, send func(*pawlv1.Run) error) error {
	wake, leave := s.wakes.subscribe(id)
	defer leave()
	var last *pawlv1.Run
	for {
		run, err := s.look(ctx, id)
		switch {
		case err != nil && (last == nil || !isPassing(err)):
			return err
		case err == nil && !proto.Equal(run, last):
			if err := send(run); err != nil {
				return err
			}
			last = run
		}
		if ended(last) {
			return nil
		}
		if err := s.awaitChange(ctx, wake); err != nil {
			return err
		}
	}
}

// isPassing reports whether the next look may go better.
func isPassing(err error) bool {
	code := fault.CodeOf(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded
}

func (s *Service) look(ctx context.Context, id string) (*pawlv1.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, watchLook)
	defer cancel()
	found, err := s.getRun(ctx, id)
	return found.GetRun(), err
}

// awaitChange returns when it is time to look again.
func (s *Service) awaitChange(ctx context.Context, wake <-chan struct{}) error {
	if err := s.clock.Sleep(ctx, watchGap); err != nil {
		return err
	}
	interval := watchPollBlind
	if s.wakes.following() {
		interval = watchPoll
	}
	timer := s.clock.NewTimer(interval)
	defer timer.Stop()
	select {
	case <-wake:
	case <-timer.C():
	case <-s.stopping:
		return fault.Unavailable(nil, "this replica of intake is stopping: watch again")
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// ended reports whether the run's state is its last.
func ended(run *pawlv1.Run) bool {
	switch run.GetStatus() {
	case pawlv1.RunStatus_RUN_STATUS_DONE, pawlv1.RunStatus_RUN_STATUS_FAILED, pawlv1.RunStatus_RUN_STATUS_CANCELLED:
		return true
	default:
		return false
	}
}
