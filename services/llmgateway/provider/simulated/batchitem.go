package simulated

import (
	"net/http"
	"slices"
)

// formOf returns the format by its name.
func (p *Provider) formOf(name string) form {
	switch name {
	case formAnthropic:
		return anthropic{p.clock.Now}
	case formGemini:
		return gemini{p.clock.Now}
	}
	return openAI{p.clock.Now}
}

// answerItem does one request of a batch. No limit of requests to models applies; of the faults only those of the model's name
// do, each batch item being one try, and those that need a connection are an error 500.
func (p *Provider) answerItem(b *batch, item *batchItem) {
	f := p.formOf(b.form)
	bad := item.bad
	var body []byte
	if bad == nil {
		body, bad = p.composeItem(b, f, item)
	}
	item.state, item.status, item.result = itemSucceeded, http.StatusOK, body
	if bad != nil {
		item.state, item.status, item.result = itemErrored, f.status(bad), f.body(0, bad)
	}
}

func (p *Provider) composeItem(b *batch, f form, item *batchItem) ([]byte, *failure) {
	c := &call{question: item.question, form: f, fingerprint: fingerprint(b.id, item.body)}
	var err error
	if c.script, err = parseScript(c.model); err != nil {
		return nil, invalid("model", err.Error())
	}
	if bad := c.check(p.cfg.Models, c.script.model); bad != nil {
		return nil, bad
	}
	c.plan = p.faults.scripted(c)
	if fault := c.plan.outcome; fault != nil {
		if bad := fault.failure("", c.question); bad != nil {
			return nil, bad
		}
		if !slices.Contains(altering(), fault.Kind) {
			return nil, &failure{kind: failStatus, status: http.StatusInternalServerError, message: "The fault " + fault.Kind + " was asked for in a batch."}
		}
	}
	a, bad := p.answer(c)
	if bad != nil {
		return nil, bad
	}
	return c.writer.whole(c.question, a), nil
}

// altering are the kinds that change what an answer says, and not how it is sent.
func altering() []string {
	return []string{
		kindEmpty, kindTruncated, kindContentFilter, kindRefusal, kindBadSchema, kindNoUsage, kindWrongUsage,
	}
}
