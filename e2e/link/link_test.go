package link_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/link"
	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m, link.Leftovers()...) }

// patience bounds what must come, and outlasts any stall of a busy machine.
const patience = 20 * time.Second

// silence is how long one listens to find that nothing comes.
const silence = 300 * time.Millisecond

// echo returns a link to a server that sends back what it gets.
func echo(t *testing.T) *link.Link {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn) // it ends with the connection
			}()
		}
	}()
	return link.New(t, server.Addr().String())
}

// peer is a client of the echo.
type peer struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dial(t *testing.T, l *link.Link) *peer {
	t.Helper()
	conn, err := net.Dial("tcp", l.Address())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &peer{t: t, conn: conn, in: bufio.NewReader(conn)}
}

// ask sends a line, and returns what comes back within the time, and when it did.
func (p *peer) ask(line string, within time.Duration) (answer string, took time.Duration, err error) {
	p.t.Helper()
	began := time.Now()
	require.NoError(p.t, p.conn.SetDeadline(began.Add(within)))
	if _, err := fmt.Fprintln(p.conn, line); err != nil {
		return "", 0, err
	}
	answer, err = p.in.ReadString('\n')
	return answer, time.Since(began), err
}

func (p *peer) requireWorks() (took time.Duration) {
	p.t.Helper()
	answer, took, err := p.ask("hello", patience)
	require.NoError(p.t, err)
	require.Equal(p.t, "hello\n", answer)
	return took
}

func TestCutLinkRefusesAndHeals(t *testing.T) {
	t.Parallel()
	l := echo(t)
	before := dial(t, l)
	before.requireWorks()
	l.Cut()
	_, _, err := before.ask("hello", patience)
	require.Error(t, err)
	require.NotErrorIs(t, err, errTimeout)
	_, err = net.Dial("tcp", l.Address())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	l.Cut()
	l.Heal()
	dial(t, l).requireWorks()
}

func TestSlowLinkDelaysBothWays(t *testing.T) {
	t.Parallel()
	l := echo(t)
	p := dial(t, l)
	l.Slow(200*time.Millisecond, 0)
	require.GreaterOrEqual(t, p.requireWorks(), 400*time.Millisecond)
	l.Heal()
	p.requireWorks()
}

func TestThrottledLinkTakesItsTime(t *testing.T) {
	t.Parallel()
	l := echo(t)
	p := dial(t, l)
	l.Throttle(100)
	answer, took, err := p.ask(string(make([]byte, 50_000)), patience)
	require.NoError(t, err)
	require.Len(t, answer, 50_001)
	require.GreaterOrEqual(t, took, 400*time.Millisecond)
}

func TestBlackHoleKeepsConnectionsAndSwallowsEverything(t *testing.T) {
	t.Parallel()
	l := echo(t)
	open := dial(t, l)
	open.requireWorks()
	l.Blackhole()
	fresh := dial(t, l)
	for _, p := range []*peer{open, fresh} {
		_, _, err := p.ask("hello", silence)
		require.ErrorIs(t, err, errTimeout)
	}
	l.Heal()
	dial(t, l).requireWorks()
}

func TestResetBreaksWhatIsSentNext(t *testing.T) {
	t.Parallel()
	l := echo(t)
	open := dial(t, l)
	open.requireWorks()
	l.Reset()
	fresh := dial(t, l)
	_, _, err := open.ask("hello", patience)
	require.Error(t, err)
	require.NotErrorIs(t, err, errTimeout)
	_, _, err = fresh.ask("hello", patience)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	l.Heal()
	dial(t, l).requireWorks()
}

// errTimeout is how a deadline of a connection shows.
var errTimeout = os.ErrDeadlineExceeded
