package llmgateway

import (
	"context"
	"errors"
	"time"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/llmgateway/breaker"
	"pawl.internal/services/llmgateway/budget"
	"pawl.internal/services/llmgateway/catalog"
	"pawl.internal/services/llmgateway/failure"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/store"
)

// request is one request to one target.
type request struct {
	*attempt
	target catalog.Target
	// account is the target's provider, and key the one of its keys that is used.
	account *account
	key     *keyed
	// pass is the breaker's.
	pass *breaker.Pass
	// messages are what is asked; note says so if that is not all of the question. Fits is false if it cannot be cut enough.
	messages []*systemv1.Message
	note     string
	fits     bool
	// keyNews is true when it was news that the key was refused.
	keyNews bool
	price   price.Card
	// tier is the service tier that is asked for; empty for the standard one.
	tier  price.Tier
	tryNo int32
	// hold is its share of the budgets beyond its run's; nil before it has one.
	hold *budget.Hold
}

// newRequest prepares a request to the target with one of its provider's keys; nil is for the first one.
func newRequest(a *attempt, t catalog.Target, key *keyed) *request {
	r := &request{attempt: a, target: t, account: a.models.accounts[t.Provider.Name], key: key}
	if key == nil {
		r.key = r.account.keys[0]
	}
	r.fits = r.fit()
	return r
}

// do waits for a permit, records the request, sends it and stores what came of it, in this order.
func (r *request) do() tried {
	r.price, _ = r.models.prices.At(r.target.Provider.Name, r.target.Model, r.service.clock.Now())
	if !r.fits {
		return r.skip(tooLong(r.target))
	}
	if refused, f := r.refused(); f.Class != failure.None {
		return tried{outcome: refused, failure: f, decided: true}
	}
	asked := r.service.clock.Now()
	ctx := r.waitingFor()
	permit, err := r.acquire(ctx)
	if err != nil {
		o, f := r.withoutPermit(ctx, err)
		return tried{outcome: o, failure: f, decided: true, skipped: true}
	}
	defer permit.Release()
	wait := r.service.clock.Now().Sub(asked)
	_, lane := r.flight.ask.class()
	r.service.metrics.waits.WithLabelValues(r.target.Provider.Group, lane).Observe(wait.Seconds())
	r.start(wait)
	var rest time.Duration
	if r.pass, rest = r.service.breakers.Enter(r.call, breakerOf(r.target)); r.pass == nil {
		permit.Unsent()
		return r.skip(resting(r.target, rest))
	}
	defer r.pass.Done(breaker.Neither)
	// From here on the gateway waits for the end also when it stops: a row without an answer would be ambiguous.
	r.flight.markSent(true)
	defer r.flight.markSent(false)
	defer r.giveBack()
	failpoint.Hit("gateway.permit.granted")
	recorded := r.service.clock.Now()
	if o, verdict := r.record(wait); verdict != store.Admitted {
		permit.Unsent()
		return tried{outcome: o, decided: verdict != store.Taken && verdict != store.Unclear}
	}
	failpoint.Hit("gateway.call.recorded")
	if o, ok := r.mayStillSend(recorded); !ok {
		permit.Unsent()
		return final(o)
	}
	sent := r.service.clock.Now()
	x, latency := r.send()
	failpoint.Hit("gateway.answer.read")
	reading := r.read(x)
	r.settlePermit(permit, sent, x, reading) // storing needs none
	failpoint.Hit("gateway.permit.released")
	r.pass.Done(healthOf(x, reading.Failure))
	r.learn(reading.Failure)
	o, f := r.settle(x, reading, latency)
	return tried{outcome: o, failure: f, decided: true}
}

// final is how an attempt ends that nothing can go on.
func final(o outcome) tried { return tried{outcome: o, decided: true} }

// learn takes over what the answer says of the key and of the account.
func (r *request) learn(f failure.Failure) {
	now := r.service.clock.Now()
	r.account.heard(f, now)
	refused, news := r.key.heard(f, now)
	r.keyNews = news && refused
	if !news {
		return
	}
	r.service.metrics.setKeyRefused(r.target.Provider.Name, r.key.id, refused)
	if !refused {
		r.service.log.Info("provider accepts our key again", "provider", r.target.Provider.Name, "key", r.key.id)
	}
}

// record takes the key, reserves the worst case, and writes the request down, durably.
func (r *request) record(wait time.Duration) (outcome, store.Verdict) {
	a := r.flight.ask
	worst, refused := r.reserve()
	if refused != nil {
		return *refused, store.OverBudget
	}
	b := &store.Begin{
		Key: a.key, Question: r.service.question(a), AmbiguousOK: a.req.GetAmbiguousOk(), Budget: a.budget(), Epoch: a.req.GetSpendEpoch(),
		Batch:   a.batch(),
		Outside: a.outside,
		Sending: store.Sending{
			Provider: r.target.Provider.Name, Model: r.target.Model, Format: r.account.format.name, KeyID: r.key.id,
			MaxOutputTokens: r.maxOutput(), PriceID: r.row().ID, WorstCase: worst, Holder: r.service.lease.holder, PermitWait: wait,
		},
	}
	if err := r.service.store.Submit(context.WithoutCancel(r.flight.ctx), b); err != nil {
		return outcome{err: err, unsettled: &store.Outcome{State: store.TryNotSent}}, 0
	}
	r.tryNo = b.TryNo
	o := outcome{cost: r.last.cost, spend: r.last.spend, calls: r.calls}
	switch b.Verdict {
	case store.OverBudget:
		o.failed = failedRunBudget(worst, b.Budget)
	case store.Closed:
		o.failed = failedCancelled()
	case store.Admitted, store.Taken, store.Unclear:
	}
	return o, b.Verdict
}

// mayStillSend checks, after the record is on disk and before the first byte, that this gateway's lease has been good since
// before the record, so that nobody has judged the request, and that nobody has ended the call. If not, nothing is sent, and
// that is noted.
func (r *request) mayStillSend(recorded time.Time) (outcome, bool) {
	ended := context.Cause(r.flight.ctx)
	if ended == nil && r.service.lease.goodSince(recorded) {
		return outcome{}, true
	}
	c := &store.Settle{Key: r.flight.ask.key, TryNo: r.tryNo, Outcome: store.Outcome{State: store.TryNotSent}}
	err := r.service.persist(c)
	o := outcome{err: fault.Unavailable(ended, "the gateway could not send in time; ask again")}
	if err == nil && errors.Is(ended, errCancelled) {
		o = outcome{failed: failedCancelled(), cost: c.Cost, spend: c.Spend, calls: r.calls}
	}
	return o, false
}

// send asks the provider.
func (r *request) send() (provider.Exchange, time.Duration) {
	began := r.service.clock.Now()
	x := r.key.sender.Send(r.call, r.question())
	return x, r.service.clock.Now().Sub(began)
}

// question is what the provider is asked.
func (r *request) question() provider.Request {
	a := r.flight.ask
	return provider.Request{
		ID: a.name(), Model: r.target.Model, Messages: r.messages, Schema: a.req.GetOutputSchema(),
		Tools: a.req.GetTools(), ToolChoice: a.req.GetToolChoice(), Embed: a.req.GetEmbed(), Dimensions: int(a.req.GetDimensions()),
		Params: a.req.GetParams(), MaxOutputTokens: r.maxOutput(),
		Stream: r.flight.speech.begin(r.target.Model), Heard: r.flight.speech.hear,
	}
}

// refused is how the request ends that its provider's format cannot express: at once, with no permit, no row and no cost.
func (r *request) refused() (outcome, failure.Failure) {
	err := r.key.sender.Check(r.question())
	if err == nil {
		return outcome{}, failure.Failure{}
	}
	f := failure.Failure{Class: failure.Invalid, Reason: failure.ReasonInput, Message: err.Error()}
	return outcome{failed: failedWith(f), cost: r.last.cost, spend: r.last.spend, calls: r.calls}, f
}

// maxOutput bounds the answer's tokens; it is always sent. Vectors have none.
func (r *request) maxOutput() int64 {
	if len(r.flight.ask.req.GetEmbed()) > 0 {
		return 0
	}
	if most := r.flight.ask.req.GetParams().GetMaxOutputTokens(); most > 0 {
		return int64(most)
	}
	return r.target.MaxOutputTokens
}

// settle stores what came back, with its cost, before anybody is told of it.
func (r *request) settle(x provider.Exchange, reading provider.Reading, latency time.Duration) (outcome, failure.Failure) {
	c := &store.Settle{Key: r.flight.ask.key, TryNo: r.tryNo, Outcome: r.outcome(x, reading)}
	c.Outcome.Latency, c.Outcome.FirstByte = latency, x.FirstByte
	if wasSent(c.Outcome.State) {
		r.calls++
	}
	err := r.service.persist(c)
	if err == nil {
		r.hold.Settle(c.Booked)
	}
	failpoint.Hit("gateway.answer.stored")
	r.service.metrics.tried(r.target.Provider.Name, r.target.Model, reading.Failure, c.Outcome.Usage, c.Booked, latency)
	r.report(x, reading)
	switch {
	case errors.Is(err, errUnstorable):
		f := failedAmbiguous()
		o := outcome{failed: f, cost: c.Cost, spend: c.Spend, calls: r.calls}
		return o, failure.Failure{Class: failure.Unsure, Reason: f.reason, Message: f.message}
	case err != nil:
		return outcome{err: fault.Unavailable(err, "the gateway is stopping; ask another one")}, failure.Failure{}
	}
	o := outcome{
		reading: reading, provider: r.target.Provider.Name, model: r.target.Model, usage: c.Outcome.Usage,
		cost: c.Cost, spend: c.Spend, calls: r.calls,
	}
	switch reading.Failure.Class {
	case failure.None:
	case failure.Cancelled:
		o.failed = failedCancelled()
	default:
		o.failed = failedWith(reading.Failure)
	}
	return o, reading.Failure
}

// read says what the exchange means. One that broke off means something only when its status says that it failed.
func (r *request) read(x provider.Exchange) provider.Reading {
	if x.Err != nil && x.Status < 400 {
		if errors.Is(x.Err, errCancelled) {
			return provider.Reading{Failure: failure.Failure{Class: failure.Cancelled, Reason: failure.ReasonCancelled}}
		}
		return provider.Reading{Failure: failure.Transport(x.Sent, x.TimedOut, x.Err.Error())}
	}
	reading := r.account.format.read(x, r.service.clock.Now())
	if reading.Failure.Class == failure.None && len(reading.Embeddings) != len(r.flight.ask.req.GetEmbed()) {
		reading.FinishReason = failure.FinishUnreadable // vectors of other texts than those that were sent
		reading.Failure = failure.Finish(failure.OpenAI, reading.FinishReason)
	}
	return reading
}

// outcome is what is stored of the exchange.
func (r *request) outcome(x provider.Exchange, reading provider.Reading) store.Outcome {
	o := store.Outcome{
		State: stateOf(x, reading.Failure), HTTPStatus: x.Status, Reason: reading.Failure.Reason, Message: reading.Failure.Message,
		FinishReason: reading.FinishReason, RequestID: reading.RequestID, Body: x.Body, Usage: reading.Usage,
	}
	r.cost(&o, x, reading)
	if o.Message == "" {
		o.Message = r.note
	}
	return o
}

func stateOf(x provider.Exchange, f failure.Failure) store.TryState {
	switch {
	case f.Class == failure.None || f.AnswerAtFault:
		return store.TryAnswered
	case f.Class == failure.Unsure:
		return store.TryAmbiguous
	case f.Class == failure.Cancelled && x.Sent:
		return store.TryCancelled
	case f.Class == failure.Cancelled:
		return store.TryNotSent
	default:
		return store.TryFailed
	}
}

// report logs what somebody must act upon, or should know. What the provider wrote stays in the call log: it may repeat the
// prompt.
func (r *request) report(x provider.Exchange, reading provider.Reading) {
	attrs := []any{
		"provider", r.target.Provider.Name, "model", r.target.Model, "class", reading.Failure.Class.String(),
		"reason", reading.Failure.Reason, "status", x.Status, "run_id", r.flight.ask.key.RunID,
	}
	switch reading.Failure.Class {
	case failure.Auth:
		if r.keyNews || !refusesKey(reading.Failure) {
			r.service.log.Error("provider refuses our key or address", append(attrs, "key", r.key.id)...)
		}
	case failure.Quota, failure.Model, failure.Region, failure.Unsure:
		r.service.log.Warn("request failed", attrs...)
	case failure.None:
		if !reading.UsageKnown {
			r.service.log.Warn("provider did not count the tokens; they are estimated", attrs...)
		}
	default:
		r.service.log.Debug("request failed", attrs...)
	}
}
