package orchestrator_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/clock"
)

// TestARunBeginsNotBeforeItsTime: what is to begin later waits, says so, has its deadline counted from then, and begins then.
func TestARunBeginsNotBeforeItsTime(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	n := r.newRunner()
	request := r.creation("chain", `{"text":"a"}`)
	var begin time.Time
	r.scan(`SELECT clock_timestamp() + interval '1.5 seconds'`, nil, &begin)
	request.NotBefore, request.Deadline = timestamppb.New(begin), durationpb.New(time.Hour)
	created, err := r.client.CreateRun(t.Context(), request)
	require.NoError(t, err)
	id := uuid.MustParse(created.GetRunId())
	run := r.run(id)
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_QUEUED, run.GetStatus())
	require.Equal(t, "not_before", run.GetBlockage().GetCode())
	require.WithinDuration(t, begin, run.GetNotBefore().AsTime(), time.Millisecond)
	require.WithinDuration(t, begin.Add(time.Hour), run.GetDeadlineAt().AsTime(), time.Millisecond)
	n.take()
	require.False(t, r.run(id).GetStartedAt().AsTime().Before(begin), "it began too early")
}

// TestARunThatWaitsForItsTimeCanBeCancelled: and never begins then.
func TestARunThatWaitsForItsTimeCanBeCancelled(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	request := r.creation("chain", `{"text":"a"}`)
	request.NotBefore = timestamppb.New(clock.System().Now().Add(time.Hour))
	created, err := r.client.CreateRun(t.Context(), request)
	require.NoError(t, err)
	id := uuid.MustParse(created.GetRunId())
	r.cancel(id)
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_CANCELLED, r.run(id).GetStatus())
	r.eventually(0, `core.step_live`)
}
