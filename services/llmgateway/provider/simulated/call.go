package simulated

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
)

// maxBody bounds a request.
const maxBody = 64 << 20

// call is one request on its way through the provider.
type call struct {
	*question
	form        form
	apiKey      string
	script      script
	fingerprint [sha256.Size]byte
	record      *record
	plan        plan
	cached      cacheUse
	spent       usage // set when it is answered
}

// ask returns the handler of questions to models.
func (p *Provider) ask(f form, parse parser) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		rec := p.ledger.begin(r, f)
		defer p.ledger.end(rec)
		f.announce(w.Header(), rec.Number)
		c, bad := p.read(r, rec, f, parse)
		if bad != nil {
			rec.fail(outcomeInvalid, f.refuse(w, rec.Number, bad))
			return
		}
		if c == nil {
			return // the caller went away before all was said
		}
		asked := c.asks()
		t, left, refused := p.limiter.admit(rec.Key, asked)
		f.standing(w.Header(), left)
		if refused != nil {
			rec.fail(outcomeLimited, f.refuse(w, rec.Number, refused))
			return
		}
		p.ledger.admit(rec, asked)
		defer func() { p.limiter.leave(t, c.weighs()) }()
		c.plan = p.faults.plan(c)
		p.serve(w, r, c)
	}
}

// read takes the request apart. The failure is the caller's; without a call, the request did not arrive whole.
func (p *Provider) read(r *http.Request, rec *record, f form, parse parser) (*call, *failure) {
	if bad := p.authenticate(f, r); bad != nil {
		return nil, bad
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, &failure{kind: failInvalid, status: http.StatusRequestEntityTooLarge, message: "the request is too large: " + err.Error()}
	}
	if err != nil {
		return nil, nil //nolint:nilnil // as said above
	}
	q, bad := parse(r, body)
	if bad != nil {
		return nil, bad
	}
	c := &call{question: q, form: f, apiKey: f.key(r), fingerprint: fingerprint(r.URL.Path, body), record: rec}
	if c.script, err = parseScript(q.model); err != nil {
		return nil, invalid("model", err.Error())
	}
	p.ledger.identify(rec, c)
	return c, q.check(p.cfg.Models, c.script.model)
}

// fingerprint is a digest of a request; a path may say which model is asked.
func fingerprint(path string, body []byte) [sha256.Size]byte {
	return sha256.Sum256(append([]byte(path+"\x00"), body...))
}

// asks is what the call weighs before it is answered.
func (c *call) asks() load {
	input := c.promptTokens()
	return load{tokens: input + c.limit, input: input, output: c.limit}
}

// weighs is what the call weighs when it has ended.
func (c *call) weighs() load {
	u := c.spent
	return load{tokens: u.prompt + u.output, input: u.prompt - u.cached, output: u.output}
}

// wait lets the configured or ordered latency pass.
func (p *Provider) wait(ctx context.Context, c *call) error {
	latency := p.cfg.Latency
	if f := c.plan.latency; f != nil {
		latency = f.latency
	}
	if latency.Median == 0 {
		return nil
	}
	request := binary.BigEndian.Uint64(c.fingerprint[:8]) + uint64(c.record.try)
	return p.clock.Sleep(ctx, latency.draw(p.cfg.Seed, request))
}
