package orchestrator_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/testkit"
)

// An idle system asks PostgreSQL a few questions a second. One quiet period is enough: what a start asks comes late on a busy
// machine.
func TestIdleSystemAsksLittle(t *testing.T) {
	t.Parallel()
	const period, few = 3 * time.Second, 6
	s := newStores(t)
	var questions atomic.Int64
	s.database = &testkit.Database{Pool: s.database.Pool, URL: countingProxy(t, s.database.URL, &questions)}
	r := s.replica(t)
	r.newRunner()
	before, began := questions.Load(), time.Now()
	require.Positive(t, before)
	testkit.Eventually(t, patience, func() error {
		passed := time.Since(began)
		if passed < period {
			return errors.New("the period is not over")
		}
		now := questions.Load()
		perSecond := float64(now-before) / passed.Seconds()
		before, began = now, time.Now()
		if perSecond > few {
			return fmt.Errorf("%.1f questions a second", perSecond)
		}
		require.Greater(t, perSecond, 1.0, "it looks for what is due")
		return nil
	})
}

// countingProxy returns the address of a way to the database that counts statements. Pings do not count: with them a pool
// asks whether a connection that has idled still lives, which depends on the machine's pace.
func countingProxy(t *testing.T, database string, statements *atomic.Int64) string {
	t.Helper()
	address, err := url.Parse(database)
	require.NoError(t, err)
	server := address.Host
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var links sync.WaitGroup
	links.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			links.Go(func() { link(client, server, statements) })
		}
	})
	t.Cleanup(links.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	address.Host = listener.Addr().String()
	return address.String()
}

// link carries one connection, without encryption, until either side ends it.
func link(client net.Conn, address string, statements *atomic.Int64) {
	defer func() { _ = client.Close() }()
	server, err := new(net.Dialer).Dial("tcp", address)
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	_ = count(client, server, statements)
	_ = server.Close()
	back.Wait()
}

// count passes the messages of a client of PostgreSQL on, and counts the statements that it has executed.
func count(client io.Reader, server io.Writer, statements *atomic.Int64) error {
	for kind := make([]byte, 0, 1); ; kind = kind[:1] { // the first message has no kind
		var head [5]byte
		size := head[1:]
		if len(kind) > 0 {
			size = head[:]
		}
		if _, err := io.ReadFull(client, size); err != nil {
			return err
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(client, body); err != nil {
			return err
		}
		if head[0] == 'E' || head[0] == 'Q' && !bytes.HasPrefix(body, []byte("-- ping")) {
			statements.Add(1)
		}
		if _, err := server.Write(append(size, body...)); err != nil {
			return err
		}
	}
}
