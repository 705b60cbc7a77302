package llmgateway

import (
	"testing"

	"github.com/stretchr/testify/require"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/llmgateway/failure"
)

// Some failures are worth one more try, or two, and not as many as the step would make.
func TestAFailureIsTriedAgainAsOftenAsItIsWorth(t *testing.T) {
	t.Parallel()
	const transient, permanent = systemv1.Outcome_FAILURE_CLASS_TRANSIENT, systemv1.Outcome_FAILURE_CLASS_PERMANENT
	for _, c := range []struct {
		failures int32
		failure  failure.Failure
		class    systemv1.Outcome_FailureClass
	}{
		{0, failure.Failure{Class: failure.Transient, MostRetries: 1}, transient},
		{1, failure.Failure{Class: failure.Transient, MostRetries: 1}, permanent},
		{1, failure.Failure{Class: failure.Transient, MostRetries: 2}, transient},
		{2, failure.Failure{Class: failure.Transient, MostRetries: 2}, permanent},
		{9, failure.Failure{Class: failure.Transient}, transient},
		{9, failure.Failure{Class: failure.Unsure, MostRetries: 1}, systemv1.Outcome_FAILURE_CLASS_AMBIGUOUS}, // the step's policy decides
	} {
		a := &attempt{
			flight:   &flight{ask: &ask{req: &systemv1.GenerateRequest{Failures: c.failures}}},
			failures: []failure.Failure{c.failure},
		}
		require.Equal(t, c.class, a.giveUp().failed.class, "%+v", c)
	}
}
