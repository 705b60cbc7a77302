package steprunner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/internal/pipeline"
	"pawl.internal/services/steprunner"
	"pawl.internal/services/steprunner/step"
)

// deaf is a kind of step that does not listen to its context: it ends when it is let go, and with an output.
type deaf struct {
	began chan struct{}
	letGo chan struct{}
}

func (d deaf) Execute(context.Context, *step.Attempt) (json.RawMessage, error) {
	d.began <- struct{}{}
	<-d.letGo
	return json.RawMessage(`"too late"`), nil
}

// journal is a log that tests read while it is written.
type journal struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// A step that ignores its context keeps its slot until the orchestrator stops it, at its hard timeout or for a cancel. Then
// the slot serves others, the heartbeats go on and list it no more, the runner says so, and what the step comes back with is
// thrown away.
func TestStepThatIgnoresItsContextGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	for _, reason := range []systemv1.StopReason{
		systemv1.StopReason_STOP_REASON_HARD_TIMEOUT, systemv1.StopReason_STOP_REASON_CANCELLED,
	} {
		t.Run(reason.String(), func(t *testing.T) {
			t.Parallel()
			hanging := deaf{began: make(chan struct{}), letGo: make(chan struct{})}
			log := &journal{}
			clock := clocktest.New()
			w := start(t, onClock(clock), lasting(4*time.Second), using(pipeline.Validate, hanging),
				with(func(c *steprunner.Config) { c.InteractiveSlots = 1 }),
				func(w *world) { w.log = slog.New(slog.NewTextHandler(log, nil)) })
			w.beating(1)
			ref := w.submit(given{
				digest: w.pipeline(`  - {name: it, validate: {value: 1, rules: [{expr: "${true}", message: no}]}, soft_timeout: 1s, hard_timeout: 2s}`),
				input:  `{}`,
			})
			<-hanging.began
			next := w.submit(given{digest: w.pipeline(double), input: `{"n":1}`})
			w.passUntil(clock, func() error { // the soft timeout changes nothing: nobody listens
				if n := see(w.orchestrator, beats); n < 5 {
					return fmt.Errorf("%d heartbeats", n)
				}
				return nil
			})
			require.Len(t, w.listed(), 1, "what is not ended is listed")
			require.Nil(t, see(w.orchestrator, func(o *orchestrator) *systemv1.Outcome { return o.outcomes[keyOf(next)] }))

			w.orchestrator.stop(ref, reason)
			w.passUntil(clock, func() error {
				if see(w.orchestrator, func(o *orchestrator) *systemv1.Outcome { return o.outcomes[keyOf(next)] }) == nil {
					return errors.New("the slot is not free")
				}
				return nil
			})
			require.Contains(t, log.String(), "step goes on although it was stopped")
			before := see(w.orchestrator, beats)
			w.passUntil(clock, func() error {
				if n := see(w.orchestrator, beats); n < before+3 || len(w.listed()) > 0 {
					return fmt.Errorf("%d heartbeats since, and %d steps in the newest", n-before, len(w.listed()))
				}
				return nil
			})

			close(hanging.letGo)
			w.clean(interactive)
			w.stop()
			require.Nil(t, see(w.orchestrator, func(o *orchestrator) *systemv1.Outcome { return o.outcomes[keyOf(ref)] }))
			for _, request := range see(w.orchestrator, func(o *orchestrator) []*systemv1.CompleteStepsRequest { return o.completed }) {
				for _, outcome := range request.GetOutcomes() {
					require.NotEqual(t, keyOf(ref), keyOf(outcome.GetStep()), "an outcome of a step that is given up was reported")
				}
			}
		})
	}
}

// A step that was given up and never ends does not hold up the end of its runner.
func TestStepThatWasGivenUpDoesNotHoldUpTheShutdown(t *testing.T) {
	t.Parallel()
	hanging := deaf{began: make(chan struct{}), letGo: make(chan struct{})}
	t.Cleanup(func() { close(hanging.letGo) })
	log := &journal{}
	clock := clocktest.New()
	w := start(t, onClock(clock), lasting(4*time.Second), using(pipeline.Validate, hanging),
		func(w *world) { w.log = slog.New(slog.NewTextHandler(log, nil)) })
	w.beating(1)
	ref := w.submit(given{
		digest: w.pipeline(`  - {name: it, validate: {value: 1, rules: [{expr: "${true}", message: no}]}}`), input: `{}`,
	})
	<-hanging.began
	w.orchestrator.stop(ref, systemv1.StopReason_STOP_REASON_FENCED)
	w.awaitGivenUp(clock, log)
	w.stop() // the clock stands still: nothing is waited for
	require.True(t, see(w.orchestrator, func(o *orchestrator) bool { return o.releases[len(o.releases)-1].GetLeaving() }))
}

// A step on its last chance that was given up does not keep others from their last chances.
func TestStepThatWasGivenUpMakesRoomForOtherLastChances(t *testing.T) {
	t.Parallel()
	hanging := deaf{began: make(chan struct{}), letGo: make(chan struct{})}
	t.Cleanup(func() { close(hanging.letGo) })
	log := &journal{}
	clock := clocktest.New()
	w := start(t, onClock(clock), lasting(4*time.Second), using(pipeline.Validate, hanging),
		func(w *world) { w.log = slog.New(slog.NewTextHandler(log, nil)) })
	w.beating(1)
	suspect := func(digest []byte) *systemv1.StepRef {
		return w.submit(given{digest: digest, input: `{"n":1}`, assignment: func(a *systemv1.Assignment) { a.LastChance = true }})
	}
	deaf := suspect(w.pipeline(`  - {name: it, validate: {value: 1, rules: [{expr: "${true}", message: no}]}}`))
	<-hanging.began
	require.NotNil(t, w.outcome(suspect(w.pipeline(double))).GetParked(), "it is not its turn")
	w.orchestrator.stop(deaf, systemv1.StopReason_STOP_REASON_HARD_TIMEOUT)
	w.awaitGivenUp(clock, log)
	require.NotNil(t, w.outcome(suspect(w.pipeline(double))).GetSucceeded())
}

// awaitGivenUp lets time pass until the runner says that it has given a step up.
func (w *world) awaitGivenUp(clock *clocktest.Fake, log *journal) {
	w.t.Helper()
	w.passUntil(clock, func() error {
		if !strings.Contains(log.String(), "step goes on although it was stopped") {
			return errors.New("it is not given up")
		}
		return nil
	})
}

// passUntil lets time pass until something has become so.
func (w *world) passUntil(clock *clocktest.Fake, try func() error) {
	w.t.Helper()
	w.eventually(func() error {
		clock.Advance(time.Second)
		return try()
	})
}

// listed are the steps in the newest heartbeat.
func (w *world) listed() []*systemv1.Hold {
	return see(w.orchestrator, func(o *orchestrator) []*systemv1.Hold { return o.heartbeats[len(o.heartbeats)-1].GetHolds() })
}
