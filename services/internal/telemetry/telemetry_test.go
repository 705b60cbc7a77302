package telemetry_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/telemetry"
)

func TestLoggerHasTheFormAndTheLevelAskedFor(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := telemetry.NewLogger(&out, telemetry.Config{Level: slog.LevelWarn, Format: "json"})
	log.Info("quiet")
	log.Warn("loud", "run_id", "r1")
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	require.Equal(t, "loud", line["msg"])
	require.Equal(t, "r1", line["run_id"])

	out.Reset()
	telemetry.NewLogger(&out, telemetry.Config{Format: "text"}).Info("plain", "run_id", "r1")
	require.Contains(t, out.String(), "msg=plain run_id=r1")
}

func TestRegistriesAreIndependentAndKnowTheProcess(t *testing.T) {
	t.Parallel()
	for range 2 {
		families, err := telemetry.NewRegistry().Gather()
		require.NoError(t, err)
		names := map[string]bool{}
		for _, family := range families {
			names[family.GetName()] = true
		}
		require.True(t, names["go_goroutines"])
		require.True(t, names["go_build_info"])
	}
}
