// Package formattest holds a provider's format to what all of them promise: that a question goes into it as the goldens say
// or is refused before anything is sent, that an answer reads the same whether it came whole or in events, and that one which
// broke off is never taken for a success.
//
// A format's testdata has two folders. In request stands what each of the questions becomes; in answer stand bodies as the
// provider sends them, NAME.json whole and NAME.sse in events, and what both read as in NAME.golden.
package formattest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/llmgateway/provider"
)

// secret is the key that the formats send, and that must not come back.
const secret = "sk-very-secret-123456"

// Sender is a format's client.
type Sender interface {
	Check(r provider.Request) error
	Send(ctx context.Context, r provider.Request) provider.Exchange
}

// Format is a format under test.
type Format struct {
	// New returns a client of a server at the address.
	New func(client *provider.Client, base string, key config.Secret) (Sender, error)
	// Base is the address of the server, as it would be configured.
	Base string
	// Read is what reads its answers.
	Read func(x provider.Exchange, now time.Time) provider.Reading
	// End is what stands in a stream only when the answer is whole.
	End string
}

// Run runs the whole suite.
func Run(t *testing.T, f Format) {
	t.Run("requests", func(t *testing.T) { f.Requests(t, "request") })
	t.Run("answers", f.answers)
	t.Run("cut streams", f.cutStreams)
	t.Run("heard", f.heard)
	t.Run("heard whole", f.heardWhole)
	t.Run("keys", f.keys)
}

// Fuzz reads whatever comes, and must not panic. What it makes of it twice is the same.
func Fuzz(f *testing.F, read func(x provider.Exchange, now time.Time) provider.Reading) {
	for _, path := range append(bodies(f, "*.json"), bodies(f, "*.sse")...) {
		f.Add(200, load(f, path))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		x := provider.Exchange{Status: status, Body: body, Sent: true}
		first := read(x, time.Time{})
		require.Equal(t, show(first), show(read(x, time.Time{})))
		if provider.IsStream(body) {
			x.Stream = true
			require.Equal(t, show(first), show(read(x, time.Time{})), "a stored answer reads as it did when it came")
		}
	})
}

func (f Format) client(t *testing.T, transport provider.Local) Sender {
	t.Helper()
	c, err := f.New(provider.NewClient(clock.System(), transport, provider.Timeouts{}), f.Base, config.NewSecret(secret))
	require.NoError(t, err)
	return c
}

func bodies(tb testing.TB, pattern string) []string {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "answer", pattern))
	require.NoError(tb, err)
	require.NotEmpty(tb, paths)
	return paths
}

func load(tb testing.TB, path string) []byte {
	tb.Helper()
	content, err := os.ReadFile(path) //nolint:gosec // the test's own data
	require.NoError(tb, err)
	return content
}

// nameOf is the name of a body: that of its file. Bodies of errors have their status behind it, as in NAME.429.json.
func nameOf(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	return name
}
