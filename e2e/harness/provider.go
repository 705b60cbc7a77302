package harness

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
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
	address := freeAddress(t)
	start(t, "simulated provider", nil, append([]string{"simulate-provider", "--listen", address}, flags...)...)
	p := &Provider{t: t, URL: "http://" + address}
	Eventually(t, func() error { return p.do(http.MethodGet, "/v1/models", nil, nil) })
	return p
}

// ModelsFile writes a models file with this provider as the only target of the route "default".
func (p *Provider) ModelsFile(t testing.TB) string {
	t.Helper()
	return WriteFile(t, "models.yaml", fmt.Sprintf(`
providers:
  - name: main
    kind: openai
    base_url: %s/v1
    api_key_env: PAWL_E2E_KEY
    limit_group: account
limits:
  account: {concurrency: 64}
routes:
  default:
    - {provider: main, model: sim-small}
prices:
  - {provider: main, model: sim-small, from: 2026-01-01, input: "0.50", cached_input: "0.05", output: "2.00"}
`, p.URL))
}

// Inject asks for a fault and returns what takes it back.
func (p *Provider) Inject(f simulated.Fault) (remove func()) {
	p.t.Helper()
	var injected struct{ ID string }
	require.NoError(p.t, p.do(http.MethodPost, "/admin/faults", f, &injected))
	return func() { _ = p.do(http.MethodDelete, "/admin/faults/"+injected.ID, nil, nil) }
}

// Report is what the provider has seen.
func (p *Provider) Report() simulated.Report {
	p.t.Helper()
	var report simulated.Report
	require.NoError(p.t, p.do(http.MethodGet, "/admin/requests?last=10000", nil, &report))
	return report
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

func (p *Provider) do(method, path string, body, answer any) error {
	response, err := exchange(p.t.Context(), method, p.URL+path, nil, body)
	if err != nil {
		return err
	}
	return response.decode(answer)
}

// WriteFile writes a file into a folder of the test's.
func WriteFile(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}
