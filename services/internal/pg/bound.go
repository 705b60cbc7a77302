package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// answerTime is how much longer than its statement timeout a server may take to answer.
const answerTime = 2 * time.Second

// bound gives up statements from our side, after the server should have: one that hangs, or whose packets are lost, ends
// nothing, and whoever waits for it without a deadline of its own would wait for ever. pgx asks it before and after each
// statement or batch.
type bound struct{ limit time.Duration }

var (
	_ pgx.QueryTracer = bound{}
	_ pgx.BatchTracer = bound{}
)

type cancelKey struct{}

// begin returns the context of one exchange with the server.
func (b bound) begin(ctx context.Context) context.Context {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	return context.WithValue(ctx, cancelKey{}, cancel)
}

// end frees what begin took.
func (b bound) end(ctx context.Context) {
	if cancel, ok := ctx.Value(cancelKey{}).(context.CancelFunc); ok {
		cancel()
	}
}

// TraceQueryStart implements pgx.QueryTracer.
func (b bound) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return b.begin(ctx)
}

// TraceQueryEnd implements pgx.QueryTracer.
func (b bound) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) { b.end(ctx) }

// TraceBatchStart implements pgx.BatchTracer.
func (b bound) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return b.begin(ctx)
}

// TraceBatchQuery implements pgx.BatchTracer.
func (b bound) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (b bound) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) { b.end(ctx) }
