package harness

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/llmgateway/provider/simulated"
)

// Provider is a simulated model provider in a process of its own. It counts what it is asked and fails on request.
type Provider struct {
	t   testing.TB
	URL string // without /v1
}

// StartProvider runs a provider with flags of `pawl simulate-provider`.
func StartProvider(t testing.TB, flags ...string) *Provider {
	t.Helper()
	args := append([]string{"simulate-provider", "--listen", "127.0.0.1:0"}, flags...)
	process := Launch(t, nil, args...)
	p := &Provider{t: t}
	process.Await(func() error {
		address := regexp.MustCompile(`listens on (http://\S+)/v1`).FindStringSubmatch(process.Output())
		if address == nil {
			return errors.New("the provider has not said where it listens")
		}
		p.URL = address[1]
		return nil
	})
	return p
}

// For is the same provider for a subtest.
func (p *Provider) For(t testing.TB) *Provider {
	same := *p
	same.t = t
	return &same
}

// usualConcurrency is how many requests are sent to a provider at once, if a test does not say otherwise.
const usualConcurrency = 64

// modelsFile makes this provider the only target of the route "default", with a limit of requests at once; 0 is the usual one.
func (p *Provider) modelsFile(concurrency int) string {
	p.t.Helper()
	return p.modelsFileAt(p.URL, cmp.Or(concurrency, usualConcurrency))
}

// modelsFileAt is modelsFile for those who reach the provider at another URL.
func (p *Provider) modelsFileAt(url string, concurrency int) string {
	p.t.Helper()
	return WriteFile(p.t, "models.yaml", modelsAt(url, concurrency))
}

// Models is what the models file says that a System is given, with more at its beginning.
func (p *Provider) Models(more string) string { return more + modelsAt(p.URL, usualConcurrency) }

func modelsAt(url string, concurrency int) string {
	return fmt.Sprintf(`
providers:
  - name: main
    kind: openai
    base_url: %[1]s/v1
    api_key_env: PAWL_E2E_KEY
    limit_group: account
limits:
  account: {concurrency: %[2]d}
routes:
  default:
    - {provider: main, model: sim-small}
prices:
  - {provider: main, model: sim-small, from: 2026-01-01, input: "0.50", cached_input: "0.05", output: "2.00"}
`, url, concurrency)
}

// Inject asks for a fault and returns what takes it back, and with it lets go of what it holds.
func (p *Provider) Inject(f simulated.Fault) (remove func()) {
	p.t.Helper()
	var injected struct{ ID string }
	require.NoError(p.t, p.do(http.MethodPost, "/admin/faults", f, &injected))
	return func() {
		p.t.Helper()
		require.NoError(p.t, p.do(http.MethodDelete, "/admin/faults/"+injected.ID, nil, nil))
	}
}

// Report is what the provider has seen.
func (p *Provider) Report() simulated.Report {
	p.t.Helper()
	var report simulated.Report
	require.NoError(p.t, p.do(http.MethodGet, "/admin/requests?last=10000", nil, &report))
	return report
}

// SetBatchPace changes how fast the provider's batches go.
func (p *Provider) SetBatchPace(pace simulated.BatchPace) {
	p.t.Helper()
	require.NoError(p.t, p.do(http.MethodPut, "/admin/batches/pace", pace, nil))
}

// Batches are those that the provider has, the newest first.
func (p *Provider) Batches() []simulated.BatchStatus {
	p.t.Helper()
	var list struct{ Batches []simulated.BatchStatus }
	require.NoError(p.t, p.do(http.MethodGet, "/admin/batches", nil, &list))
	return list.Batches
}

// AwaitInFlight waits until the provider works on exactly so many requests.
func (p *Provider) AwaitInFlight(n int) {
	p.t.Helper()
	Eventually(p.t, func() error {
		if now := p.Report().InFlight; now != n {
			return fmt.Errorf("%d requests are in flight, not %d", now, n)
		}
		return nil
	})
}

// AskedTwice lists what was asked more than once, by fingerprint.
func (p *Provider) AskedTwice() map[string]int {
	p.t.Helper()
	twice := map[string]int{}
	for fingerprint, n := range p.Report().ByFingerprint {
		if n > 1 {
			twice[fingerprint] = n
		}
	}
	return twice
}

// Since returns the requests that arrived after those of an earlier report, oldest first.
func (p *Provider) Since(before simulated.Report) []simulated.Record {
	p.t.Helper()
	last := 0
	for _, r := range before.Requests {
		last = max(last, r.Number)
	}
	return slices.DeleteFunc(p.Report().Requests, func(r simulated.Record) bool { return r.Number <= last })
}

func (p *Provider) do(method, path string, body, answer any) error {
	response, err := Exchange(p.t.Context(), method, p.URL+path, nil, body)
	if err != nil {
		return err
	}
	return response.Decode(answer)
}
