package steprunner

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/expr"
	"pawl.internal/services/internal/pipeline"
	"pawl.internal/services/steprunner/step"
)

// kind is a step's kind that does as it is told.
type kind func() (json.RawMessage, error)

func (k kind) Execute(context.Context, *step.Attempt) (json.RawMessage, error) { return k() }

// guarded executes a step of the kind, and returns what is logged too.
func guarded(t *testing.T, k kind) (*systemv1.Outcome, *metrics, string) {
	t.Helper()
	var log strings.Builder
	x := &executor{
		kinds: map[pipeline.Kind]step.Kind{pipeline.Transform: k}, clock: clock.System(),
		log: slog.New(slog.NewTextHandler(&log, nil)), metrics: newMetrics(prometheus.NewRegistry()),
	}
	outcome := x.guarded(t.Context(), &step.Attempt{
		Ref: &systemv1.StepRef{Step: "it"}, Assignment: &systemv1.Assignment{}, Step: &pipeline.Step{Kind: pipeline.Transform},
		Scope: expr.NewScope(expr.Data{}), Report: &step.Report{},
	})
	return outcome, x.metrics, log.String()
}

func TestPanicFailsItsStepAlone(t *testing.T) {
	t.Parallel()
	outcome, m, log := guarded(t, func() (json.RawMessage, error) { panic("secret of the data") })
	require.Equal(t, systemv1.Outcome_FAILURE_CLASS_PERMANENT, outcome.GetFailed().GetClass())
	require.Equal(t, step.ReasonHandlerError, outcome.GetFailed().GetReason())
	require.NotContains(t, outcome.GetFailed().GetMessage(), "secret")
	require.NotContains(t, log, "secret of the data")
	require.Contains(t, log, "execute_internal_test.go", "the stack is what one needs")
	require.InDelta(t, 1, testutil.ToFloat64(m.panics), 0)
}

func TestFaultOfTheProgramIsNotToldToPeople(t *testing.T) {
	t.Parallel()
	outcome, _, _ := guarded(t, func() (json.RawMessage, error) { return nil, errors.New("secret of the data") })
	require.Equal(t, step.ReasonHandlerError, outcome.GetFailed().GetReason())
	require.NotContains(t, outcome.GetFailed().GetMessage(), "secret")
}

func TestKindThatThisRunnerDoesNotKnow(t *testing.T) {
	t.Parallel()
	x := &executor{metrics: newMetrics(prometheus.NewRegistry()), log: slog.New(slog.DiscardHandler)}
	outcome := x.guarded(t.Context(), &step.Attempt{
		Ref: &systemv1.StepRef{Step: "it"}, Assignment: &systemv1.Assignment{}, Step: &pipeline.Step{Kind: "future"},
		Scope: expr.NewScope(expr.Data{}), Report: &step.Report{},
	})
	require.Equal(t, systemv1.Outcome_FAILURE_CLASS_TRANSIENT, outcome.GetFailed().GetClass(), "a newer runner may know it")
}
