package pipeline_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConcurrency(t *testing.T) {
	t.Parallel()
	compile := func(concurrency string) (steps, runs int, key func(input string) (string, error)) {
		c, err := newCompiler(t).Compile("", []byte("name: p\nversion: v1\n"+concurrency+"\nsteps: [{name: a, transform: 1}]\n"))
		require.NoError(t, err)
		return c.MaxSteps, c.MaxRuns, func(input string) (string, error) { return c.ConcurrencyKey(json.RawMessage(input)) }
	}
	steps, runs, key := compile("")
	require.Zero(t, steps)
	require.Zero(t, runs)
	got, err := key(`{}`)
	require.NoError(t, err)
	require.Empty(t, got)

	steps, runs, key = compile(`concurrency: {max_steps: 5, key: "${input.customer}"}`)
	require.Equal(t, 5, steps)
	require.Equal(t, 1, runs, "a key alone means one run at once")
	long := strings.Repeat("x", 300)
	for input, want := range map[string]string{
		`{"customer": "ann"}`: "ann", `{"customer": 7}`: "7", `{"customer": null}`: "", `{"customer": ""}`: "",
		`{"customer": {"b": 1, "a": 2}}`:     `{"a":2,"b":1}`,
		`{"customer": "` + long[:255] + `"}`: long[:255],
	} {
		got, err := key(input)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	got, err = key(`{"customer": "` + long + `"}`)
	require.NoError(t, err)
	sum := sha256.Sum256([]byte(long))
	require.Equal(t, "sha256:"+hex.EncodeToString(sum[:]), got, "what is longer is hashed")
	_, err = key(`{}`)
	require.ErrorContains(t, err, "concurrency.key")

	_, runs, key = compile(`concurrency: {key: "${input.a}/${input.b}", max_runs: 3}`)
	require.Equal(t, 3, runs)
	got, err = key(`{"a": "x", "b": null}`)
	require.NoError(t, err)
	require.Equal(t, "x/null", got)
}
