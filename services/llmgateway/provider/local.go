package provider

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
)

// Local is a transport to a handler in this process. The handler sees the request's context end when the caller gives up;
// when it panics with http.ErrAbortHandler, the caller sees the connection cut.
type Local struct{ Handler http.Handler }

// RoundTrip hands the request to the handler, in a goroutine that ends with the handler.
func (l Local) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	ctx := req.Context()
	traceWritten(ctx)
	serverSide := req.Clone(ctx)
	serverSide.Body = io.NopCloser(bytes.NewReader(body))
	serverSide.RequestURI, serverSide.RemoteAddr = req.URL.RequestURI(), "local"
	reader, writer := io.Pipe()
	context.AfterFunc(ctx, func() { _ = reader.Close() }) // the handler's writes fail then; Close itself never does
	w := &localWriter{header: http.Header{}, body: writer, began: make(chan struct{})}
	go w.serve(l.Handler, serverSide)
	select {
	case <-w.began:
		return w.response(req, reader)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// traceWritten tells what net/http's own transport tells: there is a connection, and the request is out.
func traceWritten(ctx context.Context) {
	trace := httptrace.ContextClientTrace(ctx)
	if trace == nil {
		return
	}
	if trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	if trace.WroteRequest != nil {
		trace.WroteRequest(httptrace.WroteRequestInfo{})
	}
}

// localWriter is the handler's side of an exchange.
type localWriter struct {
	header http.Header
	body   *io.PipeWriter

	once   sync.Once
	began  chan struct{} // closed when status and sent are set
	status int
	sent   http.Header
}

func (w *localWriter) serve(h http.Handler, req *http.Request) {
	defer func() {
		// A panic of whatever kind cuts the connection, as net/http's server does. So does a caller that has gone.
		if p := recover(); p != nil || req.Context().Err() != nil {
			w.begin(0)
			_ = w.body.CloseWithError(io.ErrUnexpectedEOF) // never fails
			return
		}
		w.begin(http.StatusOK)
		_ = w.body.Close() // never fails
	}()
	h.ServeHTTP(w, req)
}

// begin fixes status and header, once. The status 0 means that the handler died before it said anything.
func (w *localWriter) begin(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.began)
	})
}

// response is the caller's side. w.began is closed.
func (w *localWriter) response(req *http.Request, body io.ReadCloser) (*http.Response, error) {
	if w.status == 0 {
		return nil, io.EOF
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: body, ContentLength: -1, Request: req,
	}, nil
}

// Header returns the header to be sent.
func (w *localWriter) Header() http.Header { return w.header }

// WriteHeader begins the answer.
func (w *localWriter) WriteHeader(status int) { w.begin(status) }

// Write adds to the answer.
func (w *localWriter) Write(p []byte) (int, error) {
	w.begin(http.StatusOK)
	return w.body.Write(p)
}

// Flush begins the answer; what was written is on its way already.
func (w *localWriter) Flush() { w.begin(http.StatusOK) }
