package gateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/llmgateway/provider/simulated"
)

func TestI11_RequestsInFlightNeverExceedTheLimit(t *testing.T) {
	t.Parallel()
	const limit = 12
	for name, replicas := range map[string]int{"two replicas": 2, "three replicas": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := harness.StartProvider(t, "--latency", "20ms~200ms")
			gateways := harness.StartGateways(t, harness.GatewaysConfig{Replicas: replicas, Models: models(provider, "concurrency: 12")})
			l := &load{gateways: gateways, askers: 90}
			require.NoError(t, l.ask(t.Context(), repeated(harness.Question{}, 900)))
			require.Empty(t, l.failed)
			report := provider.Report()
			require.Equal(t, 900, report.Received)
			require.LessOrEqual(t, report.MaxInFlight, limit)
			require.GreaterOrEqual(t, report.MaxInFlight, limit-2, "the limit is not used")
		})
	}
}

// TestI11_PermitsOfAKilledReplicaComeBack: within two heartbeats, as its silence is noticed.
func TestI11_PermitsOfAKilledReplicaComeBack(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	provider := harness.StartProvider(t)
	gateways := harness.StartGateways(t, harness.GatewaysConfig{
		Replicas: 2, Models: models(provider, "concurrency: 2"), Flags: []string{"--llm-gateway-permit-ttl", ttl.String()},
	})
	provider.Inject(simulated.Fault{Kind: "hang", Count: 2})
	for range 2 {
		request := harness.Question{}.Request()
		go func() { _, _, _ = gateways.All[0].Ask(t.Context(), request) }() // its gateway is killed
	}
	provider.AwaitInFlight(2)
	gateways.All[0].Kill()
	killed := time.Now()
	answer, failed, err := gateways.All[1].Ask(t.Context(), harness.Question{}.Request())
	require.NoError(t, err)
	require.Nil(t, failed)
	require.NotNil(t, answer)
	require.Less(t, time.Since(killed), 2*ttl+time.Second)
}
