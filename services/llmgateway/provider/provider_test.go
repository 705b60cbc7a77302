package provider_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/llmgateway/provider"
)

func TestWithout(t *testing.T) {
	t.Parallel()
	const long = "sk-0123456789abcdef"
	for name, c := range map[string]struct {
		key, body, want string
		status          int
	}{
		"a key in an error":             {long, "bad key " + long, "bad key [key]", http.StatusUnauthorized},
		"a key in an answer":            {long, "your key is " + long, "your key is [key]", http.StatusOK},
		"a short key in an error":       {"EMPTY", "bad key EMPTY", "bad key [key]", http.StatusUnauthorized},
		"a short key that is also text": {"EMPTY", `{"text":"EMPTY"}`, `{"text":"EMPTY"}`, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			header := http.Header{"X-Echo": {c.key}}
			x := provider.Exchange{Status: c.status, Body: []byte(c.body), Header: header}.Without(config.NewSecret(c.key))
			require.Equal(t, c.want, string(x.Body))
			require.Equal(t, "[key]", x.Header.Get("X-Echo"))
		})
	}
}
