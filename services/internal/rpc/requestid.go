package rpc

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"
)

// requestIDHeader carries a request's id from service to service and back to the caller.
const requestIDHeader = "x-request-id"

// maxRequestID is the longest id taken over from a caller.
const maxRequestID = 128

type requestIDKey struct{}

// WithRequestID returns a context that carries the request's id; calls made with it hand the id on.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID returns the id of the request that ctx belongs to; "" outside of one.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// incomingRequestID is the caller's id, if it sent one that is fit for logs.
func incomingRequestID(ctx context.Context) string {
	values := metadata.ValueFromIncomingContext(ctx, requestIDHeader)
	if len(values) != 1 || !IsRequestID(values[0]) {
		return ""
	}
	return values[0]
}

// IsRequestID reports whether a text from outside is fit for logs as an id: some visible ASCII, and not too much of it.
func IsRequestID(id string) bool {
	return id != "" && len(id) <= maxRequestID && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}
