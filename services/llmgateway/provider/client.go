package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/failpoint"
)

const (
	// MaxBody is how much of an answer is read.
	MaxBody = 16 << 20
	// idleConns is how many connections to one provider are kept for the next requests.
	idleConns = 512
	// idleTime is how long they are kept: less than servers keep theirs (uvicorn and Node: 5 s), because a request that
	// meets a connection which the server is closing is lost with its fate unknown.
	idleTime = 4 * time.Second
)

var (
	errEchoedKey = errors.New("connection failed with an error that repeats the key")
	errCut       = errors.New("the answer broke off")
)

// Timeouts bound the phases of an exchange; 0 leaves a phase unbounded.
type Timeouts struct {
	// Connect bounds finding a connection, TLS included.
	Connect time.Duration
	// Write bounds writing the request.
	Write time.Duration
	// FirstByte bounds the wait for the first byte of the answer that is not white space: servers keep connections alive
	// with blank lines, which are no progress.
	FirstByte time.Duration
	// FirstEvent bounds, instead of FirstByte, the wait for the first event of an answer that is streamed; 0 for as long as
	// FirstByte.
	FirstEvent time.Duration
	// Idle bounds each silence after that.
	Idle time.Duration
	// Total bounds the whole exchange.
	Total time.Duration
}

// Client posts requests. It is safe for concurrent use.
type Client struct {
	clock     clock.Clock
	transport http.RoundTripper
	timeouts  Timeouts
}

// NewClient returns a Client that sends through transport.
func NewClient(c clock.Clock, transport http.RoundTripper, timeouts Timeouts) *Client {
	return &Client{clock: c, transport: transport, timeouts: timeouts}
}

// NewTransport returns a transport over TCP, through the proxy that the environment names, if any.
func NewTransport(timeouts Timeouts) *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: timeouts.Connect}).DialContext,
		TLSHandshakeTimeout: timeouts.Connect,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: idleConns,
		IdleConnTimeout:     idleTime,
	}
}

// Timeouts returns the limits of its exchanges.
func (c *Client) Timeouts() Timeouts { return c.timeouts }

// Post sends the body once and reads the answer. When ctx ends, the connection is closed.
func (c *Client) Post(ctx context.Context, url string, header http.Header, body []byte) Exchange {
	return c.send(ctx, url, header, body, c.timeouts, readWhole)
}

// reader reads an answer that has begun into x, and tells the watchdog of every progress.
type reader func(resp *http.Response, dog *watchdog, x *Exchange)

func (c *Client) send(
	ctx context.Context, url string, header http.Header, body []byte, timeouts Timeouts, read reader,
) Exchange {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began := c.clock.Now()
	dog := newWatchdog(ctx, c.clock, timeouts, cancel)
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { dog.enter(phaseWrite) },
		// WroteRequest comes before the last of it has left this process; so late the provider surely has it.
		GotFirstResponseByte: func() { failpoint.Hit("gateway.answer.begun") },
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				sent.Store(true)
				dog.enter(phaseFirstByte)
			}
		},
	})
	x := c.exchange(ctx, dog, url, header, body, read)
	x.Sent, x.FirstByte = sent.Load() || x.Status != 0, dog.firstByte(began)
	if x.Err != nil && ctx.Err() != nil {
		x.Err = context.Cause(ctx)
		_, phase := errors.AsType[*phaseError](x.Err)
		x.TimedOut = phase || errors.Is(x.Err, context.DeadlineExceeded)
	}
	return x
}

func (c *Client) exchange(
	ctx context.Context, dog *watchdog, url string, header http.Header, body []byte, read reader,
) Exchange {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return Exchange{Err: fmt.Errorf("make request: %w", err)}
	}
	req.Header = header
	// The transport itself, not an http.Client: a redirect is an answer, and must not make us send again.
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return Exchange{Err: err}
	}
	defer func() { _ = resp.Body.Close() }() // all that matters has been read
	x := Exchange{Status: resp.StatusCode, Header: resp.Header}
	read(resp, dog, &x)
	return x
}
