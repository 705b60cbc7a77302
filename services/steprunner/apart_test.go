package steprunner_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	systemv1 "pawl.internal/gen/pawl/system/v1"
)

// TestStepsOnTheirLastChanceAreExecutedApart gives a runner two steps that have lost their workers so often that one more
// loss ends them. It executes one, with others beside it, and puts the other off, so that a death is only its own fault.
func TestStepsOnTheirLastChanceAreExecutedApart(t *testing.T) {
	t.Parallel()
	w := start(t)
	digest := w.pipeline(ask)
	held := make(chan struct{})
	goOn := sync.OnceFunc(func() { close(held) })
	defer goOn()
	w.gateway.set(func(_ context.Context, _ *systemv1.GenerateRequest, say func(*systemv1.GenerateResponse)) error {
		<-held
		say(text("done"))
		return nil
	})
	suspect := func() *systemv1.StepRef {
		return w.submit(given{
			digest: digest, input: `{"n":1}`, assignment: func(a *systemv1.Assignment) { a.LastChance = true },
		})
	}
	first := suspect()
	w.asking(1)
	second := suspect()
	parked := w.outcome(second).GetParked()
	require.Equal(t, "worker_lost", parked.GetReason())
	require.Equal(t, time.Second, parked.GetUntil().AsDuration())
	other := w.submit(given{digest: digest, input: `{"n":2}`})
	w.asking(2) // a step that has lost nobody waits for nobody
	goOn()
	require.NotNil(t, w.outcome(first).GetSucceeded())
	require.NotNil(t, w.outcome(other).GetSucceeded())
	require.NotNil(t, w.outcome(suspect()).GetSucceeded(), "the first has made room")
}
