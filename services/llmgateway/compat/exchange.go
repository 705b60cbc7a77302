package compat

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/rpc"
)

const (
	requestIDHeader = "X-Request-Id"
	contentJSON     = "application/json"
)

// exchange is one HTTP request, as the log and the metrics tell of it. What was asked and answered is not in it.
type exchange struct {
	path           string
	tenant, prefix string
	scope          string
	replayed       bool
	// err is why it failed.
	err error
}

type exchangeKey struct{}

// exchangeOf returns the request's exchange; observe has set it.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{}
}

// observe gives every request an id, counts and times it, and writes a line of log.
func (e *endpoint) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := e.Clock.Now()
		id := r.Header.Get(requestIDHeader)
		if !rpc.IsRequestID(id) {
			id = e.IDs.V4().String()
		}
		w.Header().Set(requestIDHeader, id)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		x := &exchange{path: pathOther}
		ctx := context.WithValue(rpc.WithRequestID(r.Context(), id), exchangeKey{}, x)
		recorder := &recorder{ResponseWriter: w}
		e.guard(recorder, r.WithContext(ctx), next, x)
		status := recorder.status
		if isGone(x.err) {
			status = statusClientGone
		}
		took := e.Clock.Now().Sub(began)
		e.metrics.observe(x.path, status, took)
		e.Log.LogAttrs(ctx, levelOf(status, x.err), "request to the OpenAI-compatible endpoint",
			slog.String("method", r.Method), slog.String("path", x.path), slog.Int("status", status),
			slog.Duration("duration", took), slog.String("request_id", id), slog.String("tenant", x.tenant),
			slog.String("key", x.prefix), slog.String("run_id", x.scope), slog.Bool("replayed", x.replayed),
			slog.Any("error", cause(x.err)))
	})
}

// guard serves; a panic ends this request alone.
func (e *endpoint) guard(w *recorder, r *http.Request, next http.Handler, x *exchange) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		x.err = fault.FromPanic(p)
		if w.status == 0 {
			writeProblem(w, problemOf(x.err))
		}
	}()
	next.ServeHTTP(w, r)
}

// cause is what a log may know of an error: the words of problems may repeat the request, their causes are our own.
func cause(err error) error {
	if p, ok := errors.AsType[*problem](err); ok {
		return p.cause
	}
	return err
}

func levelOf(status int, err error) slog.Level {
	switch {
	case status == http.StatusInternalServerError:
		return slog.LevelError
	case status > http.StatusInternalServerError && cause(err) != nil:
		return slog.LevelWarn
	default:
		return slog.LevelDebug
	}
}

// recorder remembers the status of an answer; 0 as long as there is none.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
