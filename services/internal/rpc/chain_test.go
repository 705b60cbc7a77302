package rpc

import (
	"encoding/json"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
)

func TestOrderOfTheChain(t *testing.T) {
	t.Parallel()
	var names []string
	for _, l := range chain(ServerOptions{Clock: clock.System(), Metrics: NewMetrics(prometheus.NewRegistry())}) {
		names = append(names, l.name)
	}
	require.Equal(t, []string{
		"request_id", "metrics", "access_log", "recovery", "deadline", "authentication", "validation",
	}, names)
}

func TestServiceConfigRepeatsExactlyTheMethodsThatAreDeclaredIdempotent(t *testing.T) {
	t.Parallel()
	var config struct {
		MethodConfig []struct {
			Name []methodName `json:"name"`
		} `json:"methodConfig"`
	}
	require.NoError(t, json.Unmarshal([]byte(serviceConfig()), &config))
	require.Len(t, config.MethodConfig, 1)
	names := config.MethodConfig[0].Name
	orchestrator := systemv1.OrchestratorService_ServiceDesc.ServiceName
	require.Contains(t, names, methodName{Service: orchestrator, Method: "CompleteSteps"})
	require.NotContains(t, names, methodName{Service: orchestrator, Method: "RetryRun"})
	gateway := systemv1.GatewayService_ServiceDesc.ServiceName
	require.Contains(t, names, methodName{Service: gateway, Method: "CancelCalls"})
	require.NotContains(t, names, methodName{Service: gateway, Method: "Generate"}, "a stream is never repeated")
}
