package simulated

import (
	"context"
	"net/http"
)

// drips is into how many pieces an answer is cut that is not streamed and yet comes piece by piece.
const drips = 16

// reply makes the answer and sends it in the form that was asked for.
func (p *Provider) reply(ctx context.Context, w http.ResponseWriter, c *call) {
	a, bad := p.answer(c)
	if bad != nil {
		c.record.fail(outcomeInvalid, c.form.refuse(w, c.record.Number, bad))
		return
	}
	c.spent = a.usage
	c.record.PromptTokens, c.record.CompletionTokens, c.record.CachedTokens = a.usage.prompt, a.usage.output, a.usage.cached
	c.begin(w)
	var pieces []piece
	if c.stream {
		pieces = c.writer.pieces(c.question, a)
	} else {
		pieces = c.plan.slice(c.writer.whole(c.question, a))
	}
	p.deliver(ctx, w, c, pieces)
}

// slice cuts a whole answer into pieces if the plan sends them apart.
func (p plan) slice(whole []byte) []piece {
	if p.drip == nil && !p.breaks() {
		return []piece{{data: whole}}
	}
	size := max(1, len(whole)/drips)
	var pieces []piece
	for len(whole) > size {
		pieces = append(pieces, piece{whole[:size], true})
		whole = whole[size:]
	}
	return append(pieces, piece{whole, true})
}

// breaks reports whether the answer ends, or stops, before it is complete.
func (p plan) breaks() bool {
	if p.outcome == nil {
		return false
	}
	switch p.outcome.Kind {
	case kindCutBody, kindUnfinished, kindHangBody, kindErrorEvent:
		return true
	}
	return false
}

// breakAt returns before which piece the answer breaks off: after as many deltas as the fault says, or in the middle. If there
// are fewer, it is the last piece, so that no broken answer is ever whole.
func (f *Fault) breakAt(pieces []piece) int {
	if f.after < 0 {
		return len(pieces) / 2
	}
	deltas := 0
	for i, piece := range pieces {
		if deltas == f.after {
			return i
		}
		if piece.delta {
			deltas++
		}
	}
	return len(pieces) - 1
}

// deliver writes the pieces, with pauses between them if so planned, and breaks off if so planned.
func (p *Provider) deliver(ctx context.Context, w http.ResponseWriter, c *call, pieces []piece) {
	end := len(pieces)
	if c.plan.breaks() {
		end = c.plan.outcome.breakAt(pieces)
	}
	for _, piece := range pieces[:end] {
		if _, err := w.Write(piece.data); err != nil {
			return
		}
		if len(pieces) > 1 {
			flush(w)
		}
		if c.plan.drip != nil && p.clock.Sleep(ctx, c.plan.drip.wait) != nil {
			return
		}
	}
	if c.plan.breaks() {
		c.breakOff(ctx, w)
		return
	}
	if c.record.Outcome == outcomeRunning {
		c.record.Outcome = outcomeAnswered
	}
}

// breakOff does what comes in place of the rest of an answer.
func (c *call) breakOff(ctx context.Context, w http.ResponseWriter) {
	switch c.plan.outcome.Kind {
	case kindCutBody:
		flush(w)
		panic(http.ErrAbortHandler)
	case kindHangBody:
		flush(w)
		<-ctx.Done()
	case kindErrorEvent:
		e := &failure{kind: failStatus, status: statusOverloaded, message: "An error inside a stream was asked for at the simulated provider."}
		_, _ = w.Write(c.form.event(c.record.Number, e))
	}
}

// statusOverloaded is what some providers answer when they, and not the account, are at their limit.
const statusOverloaded = 529
