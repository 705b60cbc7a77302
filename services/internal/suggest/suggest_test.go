package suggest_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/suggest"
)

func TestClosest(t *testing.T) {
	known := []string{"prompt", "system", "messages", "seed", "stop", "тест"}
	for word, want := range map[string]string{
		"promt":    "prompt",
		"pormpt":   "prompt",
		"Prompt":   "prompt",
		"message":  "messages",
		"sed":      "seed",
		"sotp":     "stop",
		"тст":      "тест",
		"":         "",
		"url":      "",
		"anything": "",
	} {
		require.Equal(t, want, suggest.Closest(word, slices.Values(known)), word)
	}
}

func TestClosestIsFirstOfEquals(t *testing.T) {
	require.Equal(t, "cat", suggest.Closest("at", slices.Values([]string{"mat", "cat", "hat"})))
}

func TestDidYouMean(t *testing.T) {
	require.Equal(t, `; did you mean "prompt"?`, suggest.DidYouMean("promt", slices.Values([]string{"prompt"})))
	require.Empty(t, suggest.DidYouMean("url", slices.Values([]string{"prompt"})))
}
