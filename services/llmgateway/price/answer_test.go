package price_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/llmgateway/catalog"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/provider/anthropic"
	"pawl.internal/services/llmgateway/provider/gemini"
	"pawl.internal/services/llmgateway/provider/openai"
)

// Bodies as providers send them, all the way to dollars. Numbers are those of the cases that others got wrong.
func TestAnswersCostWhatTheyCostToTheLastDigit(t *testing.T) {
	t.Parallel()
	known, err := catalog.KnownPrices()
	require.NoError(t, err)
	haiku, ok := price.NewList(known).At("anthropic", "claude-haiku-5-5", time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	require.True(t, ok)
	card := func(input, cached, output string) price.Card {
		c, ok := price.NewList([]price.Row{row(t, input, cached, output)}).At("p", "m", time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
		require.True(t, ok)
		return c
	}
	for name, c := range map[string]struct {
		read func(provider.Exchange, time.Time) provider.Reading
		body string
		card price.Card
		want string
	}{
		"21: cached input is not fresh": {
			openai.Read, `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],
			"usage":{"prompt_tokens":1239328,"prompt_tokens_details":{"cached_tokens":1188096},"completion_tokens":12909}}`,
			card("1.25", "0.125", "10"), "0.341642",
		},
		"23: thoughts are billed": {
			gemini.Read, `{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],
			"usageMetadata":{"promptTokenCount":20,"candidatesTokenCount":198,"thoughtsTokenCount":405,"totalTokenCount":623}}`,
			card("0.30", "0.03", "2.50"), "0.0015135",
		},
		"25: a long prompt is one with its cached part": {
			anthropic.Read, `{"content":[{"type":"text","text":"a"}],"stop_reason":"end_turn",
			"usage":{"input_tokens":2000,"cache_read_input_tokens":99000,"cache_creation_input_tokens":0,"output_tokens":500}}`,
			haiku, "0.0072",
		},
		"a prompt that just is not long": {
			anthropic.Read, `{"content":[{"type":"text","text":"a"}],"stop_reason":"end_turn",
			"usage":{"input_tokens":1000,"cache_read_input_tokens":99000,"output_tokens":500}}`,
			haiku, "0.00134", // 1000 × 0.10 + 99 000 × 0.01 + 500 × 0.50, by the million
		},
		"caches for five minutes and for an hour": {
			anthropic.Read, `{"content":[{"type":"text","text":"a"}],"stop_reason":"end_turn",
			"usage":{"input_tokens":10,"cache_creation_input_tokens":3000,"output_tokens":2,
			"cache_creation":{"ephemeral_5m_input_tokens":1000,"ephemeral_1h_input_tokens":2000}}}`,
			haiku, "0.000527", // 10 × 0.10 + 1000 × 0.125 + 2000 × 0.20 + 2 × 0.50, by the million
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := c.read(provider.Exchange{Status: http.StatusOK, Body: []byte(c.body), Sent: true}, time.Time{})
			require.True(t, r.UsageKnown)
			bill, err := c.card.Cost(r.Usage)
			require.NoError(t, err)
			require.Equal(t, c.want, bill.Total.String())
		})
	}
}
