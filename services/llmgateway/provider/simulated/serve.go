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
		p.reply(ctx, w, c)
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
	case kindCutHeaders, kindHangHeaders:
		p.headersOnly(ctx, w, c)
	case kindHold:
		select {
		case <-c.plan.release:
			p.reply(ctx, w, c)
		case <-ctx.Done():
		}
	case kindKeepAlive:
		p.keepAlive(ctx, w, c, f)
	default:
		if !c.fixed(w, f) {
			p.reply(ctx, w, c)
		}
	}
}

// headersOnly begins an answer and leaves it there.
func (p *Provider) headersOnly(ctx context.Context, w http.ResponseWriter, c *call) {
	c.begin(w)
	w.WriteHeader(http.StatusOK)
	flush(w)
	if c.plan.outcome.Kind == kindCutHeaders {
		panic(http.ErrAbortHandler)
	}
	<-ctx.Done()
}

// begin notes and announces a success.
func (c *call) begin(w http.ResponseWriter) {
	c.record.Status = http.StatusOK
	w.Header().Set("Content-Type", "application/json")
	if c.stream && !c.listed {
		w.Header().Set("Content-Type", "text/event-stream")
	}
}

// fixed answers with what does not depend on the prompt, and reports whether it did.
func (c *call) fixed(w http.ResponseWriter, f *Fault) bool {
	number := c.record.Number
	if e := f.failure(c.apiKey, c.question); e != nil {
		c.record.Status = c.form.refuse(w, number, e)
		return true
	}
	switch f.Kind {
	case kindErrorIn200:
		c.begin(w)
		e := &failure{kind: failStatus, status: http.StatusInternalServerError, message: "An error inside a success was asked for at the simulated provider."}
		if c.stream {
			_, _ = w.Write(c.form.event(number, e))
			return true
		}
		_, _ = w.Write(c.form.body(number, e))
	case kindNotJSON:
		c.fixedBody(w, http.StatusOK, "text/plain", []byte("This is not JSON. It is simulated.\n"))
	case kindHTML:
		c.fixedBody(w, f.status, "text/html", []byte("<html><body><h1>Simulated</h1>This is not JSON.</body></html>\n"))
	case kindReply:
		for name, value := range f.Reply.Header {
			w.Header().Set(name, value)
		}
		c.fixedBody(w, f.Reply.Status, "", f.Reply.content())
	default:
		return false
	}
	return true
}

func (c *call) fixedBody(w http.ResponseWriter, status int, mediaType string, body []byte) {
	c.record.Status = status
	if mediaType != "" {
		w.Header().Set("Content-Type", mediaType)
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// keepAlive sends what keeps a connection open and is no progress, until the caller goes away.
func (p *Provider) keepAlive(ctx context.Context, w http.ResponseWriter, c *call, f *Fault) {
	sign := "\n"
	if c.stream {
		sign = ": keep-alive\n\n"
	}
	c.begin(w)
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

// flush sends what was written so far. A writer that cannot sends it later.
func flush(w http.ResponseWriter) {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}
