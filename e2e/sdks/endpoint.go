package sdks

import (
	"net/http"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/stretchr/testify/require"
)

// CheckEndpointGo asks Pawl's own endpoint for what no other server has, with OpenAI's library for Go: answers that are
// replayed, and budgets. It may be asked once.
func CheckEndpointGo(t *testing.T, baseURL, key, model string) {
	t.Helper()
	s := Target{baseURL, key, model}
	t.Run("replay", s.endpointReplay)
	t.Run("refusals", s.endpointRefusals)
}

// endpointReplay asks the same twice under one idempotency key, and then something else.
func (s Target) endpointReplay(t *testing.T) {
	client := s.openAI()
	once := option.WithHeader("Idempotency-Key", "order-of-go")
	ask := func() (*openai.ChatCompletion, http.Header) {
		var response *http.Response
		answer, err := client.Chat.Completions.New(t.Context(), s.chat(), once, option.WithResponseInto(&response))
		require.NoError(t, err)
		return answer, response.Header
	}
	first, bought := ask()
	again, replayed := ask()
	require.Empty(t, bought.Get("X-Pawl-Replayed"))
	require.Equal(t, "true", replayed.Get("X-Pawl-Replayed"))
	require.Equal(t, bought.Get("X-Pawl-Call"), replayed.Get("X-Pawl-Call"))
	require.Equal(t, first.Choices[0].Message.Content, again.Choices[0].Message.Content)
	other := s.chat()
	other.Temperature = param.NewOpt(0.5)
	s.openAIError(t, other, s.openAI(once), http.StatusUnprocessableEntity, "idempotency_key_reused")
}

// endpointRefusals asks for what costs too much, and for what cannot be had.
func (s Target) endpointRefusals(t *testing.T) {
	poor := s.openAI(option.WithHeader("X-Pawl-Budget-Usd", "0.000000001"))
	s.openAIError(t, s.chat(), poor, http.StatusTooManyRequests, "insufficient_quota")
	several := s.chat()
	several.N = param.NewOpt(int64(2))
	s.openAIError(t, several, s.openAI(), http.StatusBadRequest, "unsupported_parameter")
}
