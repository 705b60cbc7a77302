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
	if len(values) != 1 || len(values[0]) > maxRequestID || strings.ContainsFunc(values[0], isUnfit) {
		return ""
	}
	return values[0]
}

// isUnfit reports whether a character has no place in an id: only visible ASCII has.
func isUnfit(r rune) bool { return r <= ' ' || r > '~' }
