package steprunner

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clocktest"
)

// fencing is an orchestrator that has given all steps to others.
type fencing struct {
	systemv1.OrchestratorServiceClient
}

func (fencing) Heartbeat(_ context.Context, r *systemv1.HeartbeatRequest, _ ...grpc.CallOption) (*systemv1.HeartbeatResponse, error) {
	answer := &systemv1.HeartbeatResponse{Lease: durationpb.New(10 * time.Second)}
	for _, h := range r.GetHolds() {
		answer.Stops = append(answer.Stops, &systemv1.Stop{
			Step: h.GetStep(), Fence: h.GetFence(), Reason: systemv1.StopReason_STOP_REASON_FENCED,
		})
	}
	return answer, nil
}

// A step that waits for a lease that can be confirmed must not go on with the one that says that the step was taken away: it
// is stopped before the lease is good.
func TestI06_WhatWasTakenAwayStopsBeforeTheLeaseIsGood(t *testing.T) {
	t.Parallel()
	l := &lease{
		orchestrator: fencing{}, clock: clocktest.New(), metrics: newMetrics(prometheus.NewRegistry()), holds: newHolds(),
		confirmed: make(chan struct{}),
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	valid := make(chan bool, 1)
	l.holds.onStop = func(*hold) { valid <- l.valid() }
	l.holds.add(&hold{claim: &claim{fence: uuid.New(), answer: &systemv1.ClaimResult{}}, cancel: cancel})
	require.NoError(t, l.renew(t.Context()))
	require.False(t, <-valid, "the step could begin something with the lease before it was stopped")
	require.True(t, l.valid())
	require.Error(t, l.await(ctx), "the lease is good, and the step is not this runner's any more")
}
