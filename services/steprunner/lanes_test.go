package steprunner_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/steprunner"
)

// A runner without slots of a lane does not read its stream: lanes can have deployments of their own.
func TestARunnerOfOneLane(t *testing.T) {
	t.Parallel()
	w := start(t, with(func(c *steprunner.Config) { c.InteractiveSlots, c.BatchSlots = 0, 2 }))
	digest := w.pipeline(double)
	left := w.add(given{digest: digest, shard: -1, input: `{"n":1}`})
	w.announce(interactive, left)
	for range 3 {
		w.outcome(w.submit(given{digest: digest, class: batch, input: `{"n":1}`}))
	}
	w.clean(batch)
	length, err := w.stream(interactive).Len(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, length)
	require.Zero(t, w.pending(interactive), "it was not even read")
}
