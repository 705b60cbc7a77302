// Package link puts a network that fails on request between two programs of a test: a TCP proxy (toxiproxy) that runs within
// the test's process. The one program is told the link's address, the link leads to the other.
package link

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pawl.internal/services/testkit"
)

const (
	// listenTime bounds the wait for a port to listen on.
	listenTime = 10 * time.Second
	// Links listen where nobody else draws ports, neither for outgoing connections nor for the services of tests, so that
	// nobody takes a port while its link is cut.
	firstPort, ports = 10_000, 10_000
)

// Link is a connection between two programs. It begins healthy. Its methods are not safe for concurrent use; each takes
// effect for the connections that are open and for new ones, before it returns.
type Link struct {
	t     testing.TB
	proxy *toxiproxy.Proxy
}

// New returns a link to the address (host:port), which need not answer yet. The link ends with the test.
func New(t testing.TB, to string) *Link {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l := &Link{t: t}
	testkit.Eventually(t, listenTime, func() error {
		port := firstPort + rand.IntN(ports)
		l.proxy = toxiproxy.NewProxy(server, to, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), to)
		return l.proxy.Start()
	})
	t.Cleanup(l.proxy.Stop)
	return l
}

// For is the same link for a subtest.
func (l *Link) For(t testing.TB) *Link { return &Link{t: t, proxy: l.proxy} }

// Address is where the link is entered, as host:port.
func (l *Link) Address() string { return l.proxy.Listen }

// Cut severs every connection and refuses new ones.
func (l *Link) Cut() { l.proxy.Stop() }

// Slow delays what passes, in both directions, by latency, give or take jitter.
func (l *Link) Slow(latency, jitter time.Duration) {
	l.t.Helper()
	l.add("latency", fmt.Sprintf(`"latency": %d, "jitter": %d`, latency.Milliseconds(), jitter.Milliseconds()))
}

// Throttle lets so many kilobytes a second through, in both directions.
func (l *Link) Throttle(kilobytes int) {
	l.t.Helper()
	l.add("bandwidth", fmt.Sprintf(`"rate": %d`, kilobytes))
}

// Blackhole swallows all that is sent: connections stay open, new ones are made, and nobody hears anything. Heal closes the
// connections that have lost something.
func (l *Link) Blackhole() {
	l.t.Helper()
	l.add("timeout", `"timeout": 0`)
}

// Reset breaks every connection when something passes next; new ones are reset at their first bytes (RST).
func (l *Link) Reset() {
	l.t.Helper()
	l.add("reset_peer", `"timeout": 0`)
}

// add makes the link worse in both directions.
func (l *Link) add(kind, attributes string) {
	l.t.Helper()
	for _, direction := range []string{"upstream", "downstream"} {
		toxic := fmt.Sprintf(`{"type": %q, "stream": %q, "attributes": {%s}}`, kind, direction, attributes)
		_, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(toxic))
		require.NoError(l.t, err, "a link fails in one way of a kind at a time")
	}
}

// Heal ends whatever is wrong with the link.
func (l *Link) Heal() {
	l.t.Helper()
	l.proxy.Toxics.ResetToxics(context.Background())
	testkit.Eventually(l.t, listenTime, func() error {
		if l.proxy.Enabled {
			return nil
		}
		return l.proxy.Start()
	})
}

// Leftovers are what a proxy leaves running in a test's process when a connection breaks while something is under way on it.
func Leftovers() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).write"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
	}
}
