package simulated

import (
	"context"
	"io"
	"net/http"
)

// serve answers a request that was admitted, or fails as planned.
func (p *Provider) serve(w http.ResponseWriter, r *http.Request, c *call) {
	ctx := r.Context()
	if err := p.wait(ctx, c); err != nil {
		return
	}
	f := c.plan.outcome
	if f == nil {
		p.answer(w, r, c)
		return
	}
	if f.Kind != kindHold {
		c.record.Outcome = outcomeFault + f.Kind
	}
	switch f.Kind {
	case kindCut:
		panic(http.ErrAbortHandler)
	case kindHang:
		<-ctx.Done()
		return
	case kindHold:
		select {
		case <-c.plan.release:
		case <-ctx.Done():
			return
		}
	case kindKeepAlive:
		p.keepAlive(ctx, w, c, f)
		return
	}
	if f.fixed(w, r, c) {
		return
	}
	p.answer(w, r, c)
}

// fixed answers with what does not depend on the prompt, and reports whether it did.
func (f *Fault) fixed(w http.ResponseWriter, r *http.Request, c *call) bool {
	if e := f.apiError(r); e != nil {
		c.record.Status = e.status
		e.write(w)
		return true
	}
	c.record.Status = http.StatusOK
	switch f.Kind {
	case kindErrorIn200:
		writeErrorAsSuccess(w, c.Stream)
	case kindNotJSON:
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html><body><h1>Simulated</h1>This is not JSON.</body></html>\n")
	case kindReply:
		c.record.Status = f.Reply.Status
		for name, value := range f.Reply.Header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(f.Reply.Status)
		_, _ = w.Write(f.Reply.content())
	default:
		return false
	}
	return true
}

// writeErrorAsSuccess answers with an error under the status 200, as gateways do that began to answer too early.
func writeErrorAsSuccess(w http.ResponseWriter, stream bool) {
	e := map[string]any{"error": &apiError{
		Type: "server_error", Code: "server_error", Message: "An error inside a success was asked for at the simulated provider.",
	}}
	if !stream {
		writeJSON(w, http.StatusOK, e)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = w.Write(event(marshal(e)))
}

// keepAlive sends what keeps a connection open and is no progress, until the caller goes away.
func (p *Provider) keepAlive(ctx context.Context, w http.ResponseWriter, c *call, f *Fault) {
	sign := "\n"
	w.Header().Set("Content-Type", "application/json")
	if c.Stream {
		sign = ": keep-alive\n\n"
		w.Header().Set("Content-Type", "text/event-stream")
	}
	for {
		if _, err := io.WriteString(w, sign); err != nil {
			return
		}
		flush(w)
		if p.clock.Sleep(ctx, f.wait) != nil {
			return
		}
	}
}

// drips is into how many pieces an answer is cut that is not streamed and yet comes piece by piece.
const drips = 16

// answer makes the completion and sends it in the form that was asked for.
func (p *Provider) answer(w http.ResponseWriter, r *http.Request, c *call) {
	done, bad := p.complete(c)
	if bad != nil {
		c.record.fail(outcomeInvalid, bad.status)
		bad.write(w)
		return
	}
	c.record.Status = http.StatusOK
	c.record.PromptTokens, c.record.CompletionTokens = done.usage.Prompt, done.usage.Completion
	var pieces [][]byte
	if c.Stream {
		w.Header().Set("Content-Type", "text/event-stream")
		pieces = done.events(c.StreamOptions.IncludeUsage)
	} else {
		w.Header().Set("Content-Type", "application/json")
		pieces = c.plan.slice(done.whole())
	}
	p.deliver(r.Context(), w, c, pieces)
}

// slice cuts a whole answer into pieces if the plan sends them apart.
func (p plan) slice(whole []byte) [][]byte {
	if p.drip == nil && !p.breaks() {
		return [][]byte{whole}
	}
	size := max(1, len(whole)/drips)
	var pieces [][]byte
	for len(whole) > size {
		pieces = append(pieces, whole[:size])
		whole = whole[size:]
	}
	return append(pieces, whole)
}

// breaks reports whether the answer ends before it is complete.
func (p plan) breaks() bool {
	return p.outcome != nil && (p.outcome.Kind == kindCutBody || p.outcome.Kind == kindUnfinished)
}

// deliver writes the pieces, with pauses between them if so planned, and stops halfway if so planned.
func (p *Provider) deliver(ctx context.Context, w http.ResponseWriter, c *call, pieces [][]byte) {
	for i, piece := range pieces {
		if c.plan.breaks() && i == len(pieces)/2 {
			if c.plan.outcome.Kind == kindCutBody {
				panic(http.ErrAbortHandler)
			}
			return
		}
		if _, err := w.Write(piece); err != nil {
			return
		}
		if len(pieces) > 1 {
			flush(w)
		}
		if c.plan.drip != nil && p.clock.Sleep(ctx, c.plan.drip.wait) != nil {
			return
		}
	}
	if c.record.Outcome == outcomeRunning {
		c.record.Outcome = outcomeAnswered
	}
}

// flush sends what was written so far. A writer that cannot sends it later.
func flush(w http.ResponseWriter) {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}
