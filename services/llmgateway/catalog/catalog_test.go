package catalog_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/config"
	"pawl.internal/services/llmgateway/catalog"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/provider"
)

var today = time.Date(2026, time.November, 30, 0, 0, 0, 0, time.UTC)

func env(name string) (string, bool) {
	value, ok := map[string]string{"LLM_KEY": " sk-1 \n", "EMPTY": ""}[name]
	return value, ok
}

// load writes a models file and reads it.
func load(t *testing.T, content string) (*catalog.Catalog, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "models.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	c, err := catalog.Load(path, env, today)
	if err != nil {
		return nil, errorWithout(err, path)
	}
	return c, nil
}

type plainError string

func (e plainError) Error() string { return string(e) }

// errorWithout shortens the path in an error to "m".
func errorWithout(err error, path string) error {
	return plainError(strings.ReplaceAll(err.Error(), path, "m"))
}

const full = `
providers:
  - name: main
    kind: openai
    base_url: https://llm.example/v1
    api_key_env: LLM_KEY
    limit_group: account-1
    timeouts: {connect: 1s, write: 2s, first_byte: 3s, first_event: 5s, idle: 4s, total: 6s}
  - {name: sim, kind: simulated}
limits:
  account-1: {concurrency: 7, requests_per_minute: 3000, tokens_per_minute: 2000000, interactive_reserve: 0.2}
routes:
  default:
    - {provider: main, model: small-1, max_output_tokens: 900}
    - {provider: main, model: large-1, match: [context_too_long, timeout]}
  test:
    - {provider: sim, model: any}
prices:
  - {provider: main, model: small-1, from: 2026-01-01, input: "0.50", cached_input: "0.05", output: "2.00"}
  - {provider: main, model: small-1, from: 2027-01-01, input: 1, output: 3}
  - {provider: main, model: large-1, from: 2026-01-01T08:00:00+02:00, input: "5", cache_write: "6", output: "20"}
  - {provider: sim, model: "*", free: true}
`

func TestAFileIsReadWhole(t *testing.T) {
	t.Parallel()
	c, err := load(t, full)
	require.NoError(t, err)
	require.Equal(t, catalog.Provider{
		Name: "main", Kind: catalog.OpenAI, Format: "openai", BaseURL: "https://llm.example/v1",
		Keys: []catalog.Key{{ID: "LLM_KEY", Secret: config.NewSecret("sk-1")}}, Group: "account-1",
		Breaker: catalog.Breaker{Failures: 10, Window: 30 * time.Second, Pause: 5 * time.Second},
		Timeouts: provider.Timeouts{
			Connect: time.Second, Write: 2 * time.Second, FirstByte: 3 * time.Second,
			FirstEvent: 5 * time.Second, Idle: 4 * time.Second, Total: 6 * time.Second,
		},
	}, *c.Providers[0])
	require.Equal(t, map[string]catalog.Group{
		"account-1": {
			Name: "account-1", Concurrency: 7, Requests: 3000, Tokens: 2000000, InteractiveReserve: 0.2, BatchFloor: 0.05, Adaptive: true,
		},
		"sim": {Name: "sim", Concurrency: 64, BatchFloor: 0.05, Adaptive: true},
	}, c.Groups)
	require.Empty(t, c.Warnings)

	route, ok := c.Route("default")
	require.True(t, ok)
	targets := route.Targets
	require.Equal(t, "main/small-1", targets[0].Name())
	require.Equal(t, int64(900), targets[0].MaxOutputTokens)
	require.Equal(t, int64(4096), targets[1].MaxOutputTokens)
	require.True(t, targets[1].MatchesOn(catalog.Timeout))
	require.False(t, targets[0].MatchesOn(catalog.Timeout))

	row := rowAt(t, c, "main", "small-1", today)
	require.Equal(t, "0.05", row.CachedInput.PerMillion().String())
	require.Equal(t, "0.5", row.CacheWrite.PerMillion().String())
	later := rowAt(t, c, "main", "small-1", today.AddDate(1, 0, 0))
	require.Equal(t, "3", later.Output.PerMillion().String())
	large := rowAt(t, c, "main", "large-1", today)
	require.Equal(t, time.Date(2026, 1, 1, 6, 0, 0, 0, time.UTC), large.From)
	require.Equal(t, "6", large.CacheWrite.PerMillion().String())
}

// rowAt is the row for short prompts on the standard tier.
func rowAt(t *testing.T, c *catalog.Catalog, provider, model string, at time.Time) price.Row {
	t.Helper()
	card, ok := price.NewList(c.Prices).At(provider, model, at)
	require.True(t, ok)
	row, ok := card.Row(price.Standard, 1)
	require.True(t, ok)
	return row
}

func TestAModelMayBeNamedInsteadOfARoute(t *testing.T) {
	t.Parallel()
	c, err := load(t, full)
	require.NoError(t, err)
	route, ok := c.Route("large-1")
	require.True(t, ok)
	require.Len(t, route.Targets, 1)
	require.Empty(t, route.Targets[0].Match)
	for _, unknown := range []string{"large-2", "large-1?503", "any-other?503"} {
		_, ok = c.Route(unknown)
		require.False(t, ok, unknown)
	}
	route, ok = c.Route("any?503*1")
	require.True(t, ok, "simulated models take faults in their names")
	require.Equal(t, "sim/any?503*1", route.Targets[0].Name())
}

func TestKeysMayStandInFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "key"), []byte("sk-2\n"), 0o600))
	path := filepath.Join(folder, "models.yaml")
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(full, "api_key_env: LLM_KEY", "api_key_file: key", 1)), 0o600))
	c, err := catalog.Load(path, env, today)
	require.NoError(t, err)
	require.Equal(t, []catalog.Key{{ID: "key", Secret: config.NewSecret("sk-2")}}, c.Providers[0].Keys)
}

// change replaces a piece of the full file.
func change(old, replacement string) string { return strings.Replace(full, old, replacement, 1) }

func TestEveryMistakeIsNamedWithItsPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ content, want string }{
		"empty":            {"", "m: the file is empty"},
		"two documents":    {full + "---\na: 1\n", "m: line"},
		"no YAML":          {"providers: [", "m: yaml: line 1"},
		"not a mapping":    {"[]", "m:1:1: must be a mapping of breaker, limits, prices, providers, routes"},
		"unknown field":    {change("base_url:", "base_ulr:"), `m:5:5: providers[0]: unknown field "base_ulr"; did you mean "base_url"?`},
		"twice":            {change("kind: openai", "kind: openai\n    kind: openai"), `m:5:5: providers[0]: "kind" is given twice`},
		"no name":          {change("name: main", "limit_group: x"), `"name" is missing`},
		"same name":        {change("name: sim", "name: main"), `m:9:5: providers[1]: there is another provider with the name "main"`},
		"kind":             {change("kind: openai", "kind: opnai"), `m:4:11: providers[0].kind: "opnai" is not known here: use "openai" or "anthropic" or "gemini" or "simulated"`},
		"address":          {change("https://llm.example/v1", "llm.example"), "m:5:15: providers[0].base_url: not the address of an API"},
		"no address":       {change("    base_url: https://llm.example/v1\n", ""), `m:3:5: providers[0]: "base_url" is missing`},
		"key in address":   {change("https://llm", "https://me:sk-3@llm"), "keys belong into api_key_env"},
		"unset key":        {change("LLM_KEY", "EMPTY"), "m:6:18: providers[0].api_key_env: the environment variable EMPTY is not set"},
		"two keys":         {change("api_key_env: LLM_KEY", "api_key_env: LLM_KEY\n    api_key_file: f"), "one is enough"},
		"no key named":     {change("api_key_env: LLM_KEY", "api_keys: [{}]"), `m:6:16: providers[0].api_keys[0]: must say where the key is: "env" names a variable`},
		"same key twice":   {change("api_key_env: LLM_KEY", "api_keys: [{env: LLM_KEY}, {env: LLM_KEY}]"), `providers[0].api_keys[1]: there is another key with the name "LLM_KEY"`},
		"one of many keys": {change("api_key_env: LLM_KEY", "api_keys: [{env: LLM_KEY}, {env: EMPTY}]"), "providers[0].api_keys[1].env: the environment variable EMPTY is not set"},
		"missing key file": {change("api_key_env: LLM_KEY", "api_key_file: nothing"), "no such file"},
		"simulated key":    {change("kind: simulated", "kind: simulated, api_key_env: LLM_KEY"), "a simulated provider has no address and no key"},
		"timeout":          {change("connect: 1s", "connect: 1"), "m:8:25: providers[0].timeouts.connect: must be a duration above 0"},
		"concurrency":      {change("concurrency: 7", "concurrency: 0"), "m:11:28: limits.account-1.concurrency: must be a whole number above 0"},
		"unused limit":     {change("limit_group: account-1", "limit_group: account1"), `limits.account-1: no provider has the limit group "account-1"; did you mean "account1"?`},
		"empty route":      {change("    - {provider: sim, model: any}\n", ""), "routes.test: must be a list with at least one element"},
		"unknown provider": {change("{provider: sim, model: any}", "{provider: sin, model: any}"), `m:17:7: routes.test[0]: there is no provider "sin"; did you mean "sim"?`},
		"only matches": {
			change("small-1, max_output_tokens: 900", "small-1, match: [timeout]"), `m:14:7: routes.default[0]: every target of the route "default" has a match`,
		},
		"condition": {change("match: [context_too_long, timeout]", "match: [later]"), `"later" is not known here`},
		"no price":  {change("model: large-1, from", "model: large-2, from"), "m:15:7: routes.default[1]: no price of main/large-1 holds today"},
		"no price yet": {
			change("model: large-1, from: 2026-01-01T08:00:00+02:00", "model: large-1, from: 2027-01-01"), "no price of main/large-1 holds today",
		},
		"price of nobody": {change("{provider: sim, model: \"*\"", "{provider: sum, model: \"*\""), `prices[3]: there is no provider "sum"`},
		"half a price":    {change(`, input: 1, output: 3`, `, input: 1`), `m:20:5: prices[1]: give "from", "input" and "output"`},
		"free and priced": {change(`free: true`, `free: true, output: 1`), "it is free and has a price"},
		"free or not":     {change(`free: true`, `free: perhaps`), "prices[3].free: must be true or false"},
		"price":           {change(`"0.50"`, `"0,50"`), "prices[0].input: \"0,50\" is not an amount of money"},
		"tiny price":      {change(`"0.50"`, `"0.0000001"`), "more than six decimals"},
		"date":            {change(`from: 2027-01-01`, `from: January`), "m:20:44: prices[1].from: must be a day"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, c.content)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "sk-")
		})
	}
}

func TestAllMistakesComeTogetherInTheOrderOfTheFile(t *testing.T) {
	t.Parallel()
	_, err := load(t, "providers:\n  - {name: a, kind: b}\n  - {kind: simulated, speed: 1}\nroutes: {}\nlimit: {}\n")
	require.Error(t, err)
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, lines, 4, err.Error())
	require.Contains(t, lines[0], "m:2:21: providers[0].kind")
	require.Contains(t, lines[3], `m:5:1: unknown field "limit"; did you mean "limits"?`)
}

func TestWithoutAFileTheSimulatedProviderServesAndCosts(t *testing.T) {
	t.Parallel()
	c, err := catalog.NewSimulated(today)
	require.NoError(t, err)
	route, ok := c.Route("default")
	require.True(t, ok)
	require.Equal(t, catalog.Simulated, route.Targets[0].Provider.Kind)
	row := rowAt(t, c, "simulated", route.Targets[0].Model, today)
	require.False(t, row.Input.IsZero() || row.Output.IsZero())
}

func TestAServerFromTheEnvironment(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]struct {
		server        catalog.Server
		input, output string
	}{
		"OpenAI, known price": {catalog.Server{BaseURL: catalog.OpenAIURL, Model: "gpt-4.1-mini", Key: config.NewSecret("k")}, "0.4", "1.6"},
		"OpenAI, other price": {catalog.Server{BaseURL: catalog.OpenAIURL, Model: "gpt-4.1-mini", Price: "input=1, output=2"}, "1", "2"},
		"other, free":         {catalog.Server{BaseURL: "http://127.0.0.1:1/v1", Model: "m", Price: "free"}, "0", "0"},
		"other, priced":       {catalog.Server{BaseURL: "http://127.0.0.1:1/v1", Model: "m", Price: "input=0.1,cached_input=0.01,output=0.2"}, "0.1", "0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := catalog.NewServer(s.server, today)
			require.NoError(t, err)
			route, ok := c.Route("default")
			require.True(t, ok)
			require.Equal(t, "openai/"+s.server.Model, route.Targets[0].Name())
			row := rowAt(t, c, "openai", s.server.Model, today)
			require.Equal(t, s.input, row.Input.PerMillion().String())
			require.Equal(t, s.output, row.Output.PerMillion().String())
		})
	}
}

func TestAnUnknownPriceIsRefused(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]catalog.Server{
		"unknown model":    {BaseURL: catalog.OpenAIURL, Model: "gpt-99"},
		"known elsewhere":  {BaseURL: "http://127.0.0.1:1/v1", Model: "gpt-4.1-mini"},
		"half a price":     {BaseURL: catalog.OpenAIURL, Model: "m", Price: "input=1"},
		"misspelt price":   {BaseURL: catalog.OpenAIURL, Model: "m", Price: "inptu=1,output=2"},
		"unreadable price": {BaseURL: catalog.OpenAIURL, Model: "m", Price: "input=x,output=2"},
	} {
		_, err := catalog.NewServer(s, today)
		require.ErrorContains(t, err, "PAWL_OPENAI_PRICE", name)
	}
	_, err := catalog.NewServer(catalog.Server{BaseURL: "nowhere"}, today)
	require.ErrorContains(t, err, "nowhere")
}

func TestFormatsOfOneCompanyHaveItsAddress(t *testing.T) {
	t.Parallel()
	c, err := load(t, `
providers:
  - {name: a, kind: anthropic, api_key_env: LLM_KEY}
  - {name: b, kind: anthropic, base_url: https://proxy.example/anthropic}
  - {name: g, kind: gemini}
routes:
  default: [{provider: a, model: m}, {provider: b, model: m}, {provider: g, model: m}]
prices:
  - {provider: a, model: m, free: true}
  - {provider: b, model: m, free: true}
  - {provider: g, model: m, free: true}
`)
	require.NoError(t, err)
	require.Equal(t, "https://api.anthropic.com/v1", c.Providers[0].BaseURL)
	require.Equal(t, "anthropic", c.Providers[0].Format)
	require.Equal(t, "https://proxy.example/anthropic", c.Providers[1].BaseURL)
	require.Equal(t, "https://generativelanguage.googleapis.com/v1beta", c.Providers[2].BaseURL)
	require.Equal(t, "gemini", c.Providers[2].Format)
}
