package stream_test

import (
	"maps"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/stream"
)

func TestStepsAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	step := stream.Step{Run: uuid.MustParse("01a22d45-7014-7c49-b8d5-b4685b852580"), Step: "fields", Shard: -1, Generation: 3}
	read, err := stream.ParseStep(step.Fields())
	require.NoError(t, err)
	require.Equal(t, step, read)
	for field, wrong := range map[string]string{"run": "7", "shard": "first", "generation": "", "step": ""} {
		fields := maps.Clone(step.Fields())
		fields[field] = wrong
		_, err := stream.ParseStep(fields)
		require.ErrorContains(t, err, field+": ")
	}
}
