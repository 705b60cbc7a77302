package rest

import (
	"context"
	"net/http"

	"pawl.internal/services/internal/rpc"
)

const requestIDHeader = "X-Request-Id"

// exchange is one HTTP request with what its parts must know of each other.
type exchange struct {
	// route is the pattern of the path, for metrics; set when one has matched.
	route string
	// ifNoneMatch is the ETag that the caller has already.
	ifNoneMatch string
}

type exchangeKey struct{}

// exchangeOf returns the request's exchange; observe has set it.
func exchangeOf(ctx context.Context) *exchange {
	if e, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return e
	}
	return &exchange{}
}

// observe gives every request an id and counts and times it.
func (a *api) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := a.Clock.Now()
		id := r.Header.Get(requestIDHeader)
		if !rpc.IsRequestID(id) {
			id = a.IDs.V4().String()
		}
		w.Header().Set(requestIDHeader, id)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		e := &exchange{ifNoneMatch: r.Header.Get("If-None-Match")}
		ctx := context.WithValue(rpc.WithRequestID(r.Context(), id), exchangeKey{}, e)
		recorder := &recorder{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(recorder, r.WithContext(ctx))
		a.metrics.observe(r.Method, e.route, recorder.status, a.Clock.Now().Sub(began))
	})
}

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
