package gemini_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/llmgateway/failure"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/provider/gemini"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// The simulated provider was made from the public format by others: what one of the two has wrong shows here.
func TestTheSimulatedProviderUnderstandsAndIsUnderstood(t *testing.T) {
	t.Parallel()
	server := simulated.New(simulated.Config{Models: []string{"small"}}, clock.System())
	client := provider.NewClient(clock.System(), provider.Local{Handler: server}, provider.Timeouts{})
	c, err := gemini.New(client, "http://simulated/v1beta", config.NewSecret("sk-any-key-0123456789"))
	require.NoError(t, err)
	for _, schema := range []string{
		"", `{"type":"object","additionalProperties":false,"properties":{"party":{"type":"string"}}}`,
		`{"type":"object","properties":{"amount":{"type":"number","minimum":0}}}`,
	} {
		var read [2]provider.Reading
		for i, stream := range []bool{false, true} {
			var heard strings.Builder
			q := provider.Request{
				ID: "1", Model: "small", MaxOutputTokens: 200, Schema: []byte(schema), Stream: stream,
				Messages: []*systemv1.Message{{Role: "user", Content: "The party is ООО «Ромашка», the amount is 7 dollars."}},
				Heard:    func(d provider.Delta) { heard.WriteString(d.Text) },
			}
			x := c.Send(t.Context(), q)
			require.NoError(t, x.Err)
			require.Equal(t, http.StatusOK, x.Status, "%s", x.Body)
			require.Equal(t, stream, x.Stream)
			read[i] = gemini.Read(x, time.Time{})
			read[i].RequestID = ""
			require.Equal(t, failure.None, read[i].Failure.Class, "%s", x.Body)
			require.True(t, read[i].UsageKnown)
			if stream {
				require.Equal(t, read[i].Text, heard.String())
			}
		}
		require.Equal(t, read[0], read[1], schema)
	}
}
