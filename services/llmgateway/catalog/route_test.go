package catalog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/llmgateway/catalog"
)

// routes makes a models file of providers a, b and c with these routes.
func routes(content string) string {
	return `
breaker: {failures: 7, window: 20s}
providers:
  - {name: a, kind: simulated}
  - {name: b, kind: simulated, breaker: {failures: 3, pause: 1s}}
  - {name: c, kind: openai, base_url: "https://llm.example/v1", api_keys: [{env: LLM_KEY}, {file: spare.key}]}
prices:
  - {provider: a, model: "*", free: true}
  - {provider: b, model: "*", free: true}
  - {provider: c, model: "*", free: true}
routes:
` + content
}

// describe writes the targets of a route as "rank:provider/model".
func describe(t *testing.T, c *catalog.Catalog, name string) string {
	t.Helper()
	r, ok := c.Route(name)
	require.True(t, ok)
	var words []string
	for _, target := range r.Targets {
		words = append(words, fmt.Sprintf("%d:%s", target.Rank, target.Name()))
	}
	return strings.Join(words, " ")
}

func loadRoutes(t *testing.T, content string) (*catalog.Catalog, error) {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "spare.key"), []byte("sk-9"), 0o600))
	path := filepath.Join(folder, "models.yaml")
	require.NoError(t, os.WriteFile(path, []byte(routes(content)), 0o600))
	c, err := catalog.Load(path, env, today)
	if err != nil {
		return nil, errorWithout(err, path)
	}
	return c, nil
}

func TestNeighboursWithWeightsHaveOneRank(t *testing.T) {
	t.Parallel()
	c, err := loadRoutes(t, `
  main:
    - {provider: a, model: x, weight: 3}
    - {provider: b, model: x, weight: 1}
    - {provider: a, model: large, match: [context_too_long], max_input_tokens: 5000}
    - {provider: a, model: y, weight: 1}
    - {provider: b, model: y}
    - {provider: a, model: z, weight: 1}
    - {provider: b, model: z, weight: 1}
`)
	require.NoError(t, err)
	require.Equal(t, "0:a/x 0:b/x 1:a/large 2:a/y 3:b/y 4:a/z 4:b/z", describe(t, c, "main"))
	r, _ := c.Route("main")
	require.Equal(t, int64(5000), r.Targets[2].MaxInputTokens)
	require.Equal(t, 3, r.Targets[0].Weight)
	require.Empty(t, r.Economy)
}

func TestFallbacksFollowWithTheirTargets(t *testing.T) {
	t.Parallel()
	c, err := loadRoutes(t, `
  first: {targets: [{provider: a, model: x}, {provider: a, model: y, weight: 1}], fallback: [second, third], economy: batch_api}
  second: {targets: [{provider: b, model: x, weight: 1}, {provider: b, model: y, weight: 2}], fallback: [third]}
  third: [{provider: c, model: x}, {provider: a, model: x}]
`)
	require.NoError(t, err)
	require.Equal(t, "0:a/x 1:a/y 2:b/x 2:b/y 3:c/x", describe(t, c, "first"), "each target once")
	require.Equal(t, "0:b/x 0:b/y 1:c/x 2:a/x", describe(t, c, "second"))
	r, _ := c.Route("first")
	require.Equal(t, catalog.BatchAPI, r.Economy)
	var names []string
	for _, target := range c.Targets() {
		names = append(names, target.Name())
	}
	require.Equal(t, []string{"a/x", "a/y", "b/x", "b/y", "c/x"}, names)
}

func TestBreakersAndKeysOfProviders(t *testing.T) {
	t.Parallel()
	c, err := loadRoutes(t, "  main: [{provider: a, model: x}]\n")
	require.NoError(t, err)
	require.Equal(t, catalog.Breaker{Failures: 7, Window: 20 * time.Second, Pause: 5 * time.Second}, c.Providers[0].Breaker)
	require.Equal(t, catalog.Breaker{Failures: 3, Window: 20 * time.Second, Pause: time.Second}, c.Providers[1].Breaker)
	require.Len(t, c.Providers[2].Keys, 2)
	require.Equal(t, "LLM_KEY", c.Providers[2].Keys[0].ID)
	require.Equal(t, "spare.key", c.Providers[2].Keys[1].ID)
	require.Equal(t, "sk-9", c.Providers[2].Keys[1].Secret.Reveal())
}

func TestMistakesOfRoutes(t *testing.T) {
	t.Parallel()
	const x = "[{provider: a, model: x}]"
	for name, c := range map[string]struct{ content, want string }{
		"a circle": {
			"  a: {targets: " + x + ", fallback: [b]}\n  b: {targets: " + x + ", fallback: [a]}\n",
			"m:13:54: routes.b.fallback[0]: the fallbacks go in a circle, a → b → a: a call would never end",
		},
		"a circle of one": {"  a: {targets: " + x + ", fallback: [a]}\n", "in a circle, a → a: a call"},
		"a circle further on": {
			"  a: {targets: " + x + ", fallback: [c]}\n  b: {targets: " + x + ", fallback: [c]}\n  c: {targets: " + x + ", fallback: [b]}\n",
			"in a circle, b → c → b: a call",
		},
		"unknown fallback":   {"  main: {targets: " + x + ", fallback: [mian]}\n", `there is no route "mian"; did you mean "main"?`},
		"unknown economy":    {"  main: {targets: " + x + ", economy: yes}\n", `"yes" is not known here: use "batch_api"`},
		"no targets":         {"  main: {economy: batch_api}\n", `routes.main: "targets" is missing`},
		"weight and match":   {"  main: [{provider: a, model: x}, {provider: a, model: y, weight: 1, match: [timeout]}]\n", "a target with a match has no weight"},
		"cut without match":  {"  main: [{provider: a, model: x, max_input_tokens: 5}]\n", "max_input_tokens cuts the question"},
		"weight of nothing":  {"  main: [{provider: a, model: x, weight: 0}]\n", "weight: must be a whole number above 0"},
		"only matches there": {"  main: {targets: [{provider: a, model: x, match: [timeout]}]}\n", `every target of the route "main" has a match`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := loadRoutes(t, c.content)
			require.ErrorContains(t, err, c.want)
			require.Len(t, strings.Split(err.Error(), "\n"), 1, "once")
		})
	}
}

// A source sees a change only when it is over: a file that is being written differs from one look to the next.
func TestASourceSeesWhatHasChanged(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	write("spare.key", "sk-9")
	write("models.yaml", routes("  main: [{provider: a, model: x}]\n"))
	s := catalog.NewSource(filepath.Join(folder, "models.yaml"), env)
	_, err := s.Load(today)
	require.NoError(t, err)
	looks := func(want ...bool) {
		t.Helper()
		for i, w := range want {
			require.Equal(t, w, s.Changed(), "look %d", i)
		}
	}
	looks(false, false)
	write("models.yaml", "rou")
	looks(false)
	write("models.yaml", routes("  main: [{provider: b, model: x}]\n"))
	looks(false, true, true)
	_, err = s.Load(today)
	require.NoError(t, err)
	looks(false, false)

	write("spare.key", "sk-10")
	looks(false, true)
	c, err := s.Load(today)
	require.NoError(t, err)
	require.Equal(t, "sk-10", c.Providers[2].Keys[1].Secret.Reveal())

	require.NoError(t, os.Remove(filepath.Join(folder, "spare.key")))
	looks(false, true)
	_, err = s.Load(today)
	require.ErrorContains(t, err, "no such file")
	looks(false, false)
	write("spare.key", "sk-11") // what was missing comes
	looks(false, true)
	_, err = s.Load(today)
	require.NoError(t, err)
	s.Again()
	looks(true, true)
}

// A mounted ConfigMap changes by swapping the link that its files go through.
func TestASourceFollowsLinks(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for version, provider := range map[string]string{"v1": "a", "v2": "b"} {
		require.NoError(t, os.Mkdir(filepath.Join(folder, version), 0o700))
		content := strings.ReplaceAll(routes("  main: [{provider: "+provider+", model: x}]\n"), ", {file: spare.key}", "")
		require.NoError(t, os.WriteFile(filepath.Join(folder, version, "models.yaml"), []byte(content), 0o600))
	}
	data := filepath.Join(folder, "data")
	require.NoError(t, os.Symlink("v1", data))
	s := catalog.NewSource(filepath.Join(data, "models.yaml"), env)
	c, err := s.Load(today)
	require.NoError(t, err)
	require.Equal(t, "0:a/x", describe(t, c, "main"))
	require.NoError(t, os.Symlink("v2", data+".new"))
	require.NoError(t, os.Rename(data+".new", data))
	require.False(t, s.Changed())
	require.True(t, s.Changed())
	c, err = s.Load(today)
	require.NoError(t, err)
	require.Equal(t, "0:b/x", describe(t, c, "main"))
}
