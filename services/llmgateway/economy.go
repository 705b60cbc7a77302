package llmgateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/llmgateway/economy"
	"pawl.internal/services/llmgateway/permit"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/store"
)

// reasonBatch is why a step waits whose request is with a provider's batch.
const reasonBatch = "provider_batch"

// lookAgain bounds the wait of a step whose request is in the economy lane. It is told when the answer is there; this is for
// tellings that are lost.
const lookAgain = 10 * time.Minute

// adoptBatches is how old a batch must be of which nobody knows whether it was made, before that is found out.
const adoptBatches = 30 * time.Second

// enterLane puts the question into the economy lane, if it may go there: a batch's question, on a route that allows it, with
// enough time, that has not been there before. It is undecided when the question goes the usual way.
func (a *attempt) enterLane(found store.Found, r *request) (o outcome, decided bool) {
	item, ok := a.item(found, r)
	if !ok {
		return outcome{}, false
	}
	r.price, _ = a.models.prices.At(r.target.Provider.Name, r.target.Model, a.service.clock.Now())
	if _, err := r.price.Most(price.Batch, a.flight.ask.mostInput(), r.maxOutput()); err != nil { // no price for batches
		return outcome{}, false
	}
	r.tier = price.Batch
	worst, refused := r.reserve()
	if refused != nil {
		return *refused, true
	}
	defer r.giveBack()
	q := a.flight.ask
	b := &store.Begin{
		Key: q.key, Question: a.service.question(q), AmbiguousOK: q.req.GetAmbiguousOk(), Budget: q.budget(), Epoch: q.req.GetSpendEpoch(),
		Batch: q.batch(), Item: item, Sending: store.Sending{
			Provider: r.target.Provider.Name, Model: r.target.Model, Format: r.account.format.name, KeyID: r.key.id,
			MaxOutputTokens: r.maxOutput(), PriceID: r.row().ID, WorstCase: worst, Holder: store.LaneHolder,
		},
	}
	if err := a.service.store.Submit(context.WithoutCancel(a.flight.ctx), b); err != nil {
		return outcome{err: err}, true
	}
	failpoint.Hit("gateway.economy.entered")
	switch b.Verdict {
	case store.Admitted:
		r.hold.Settle(worst) // from the next reading of the sums on it is among what the lane has reserved
		return a.inLane(found), true
	case store.OverBudget:
		return outcome{failed: failedRunBudget(worst, b.Budget)}, true
	case store.Closed:
		return outcome{failed: failedCancelled()}, true
	case store.Taken, store.Unclear:
	}
	return outcome{}, false
}

// item is what the lane needs of the question; false if it goes the usual way. So does what belongs to no run: nobody could be
// told hours later.
func (a *attempt) item(found store.Found, r *request) (*store.Item, bool) {
	q, api := a.flight.ask, r.account.batches
	class, _ := q.class()
	left := a.timeLeft() - a.service.economy.reserve
	if q.outside || class != permit.Batch || api == nil || found.LaneTries > 0 || left < a.service.economy.least ||
		len(q.req.GetEmbed()) > 0 || !a.models.catalog.Economy(q.req.GetRoute()) {
		return nil, false
	}
	body, err := api.EncodeItem(r.question())
	if err != nil { // the usual way says what is wrong with it
		return nil, false
	}
	return &store.Item{
		CustomID: fmt.Sprintf("%x-%x", q.key.RunID[:], q.key.Digest[:15]), Body: body, LiveIn: left,
	}, true
}

// timeLeft is the time until the run's deadline.
func (a *attempt) timeLeft() time.Duration {
	until, _ := a.begin.Deadline()
	return until.Sub(a.service.clock.Now())
}

// inLane is how a Generate ends whose request is in the lane: the step waits, without a slot and without spending an attempt.
func (a *attempt) inLane(found store.Found) outcome {
	wait := max(time.Second, min(lookAgain, a.timeLeft()-a.service.economy.reserve))
	return outcome{cost: found.Cost, spend: found.Spend, failed: &failed{
		class: systemv1.Outcome_FAILURE_CLASS_TRANSIENT, reason: reasonBatch, park: true, wait: wait,
		message: "the request is with a batch of the provider's, which is answered when the provider finds the time",
	}}
}

// economyLane is the lane with what the gateway decides by.
type economyLane struct {
	*economy.Lane
	// least is the least time that a batch is worth trying in, and reserve what is kept of the time until the deadline for
	// asking in the usual way.
	least, reserve time.Duration
}

// newEconomy makes the lane.
func (s *Service) newEconomy(deps economy.Deps, cfg Config) economyLane {
	deps.Store, deps.Clock, deps.Log, deps.Holder = s.store, s.clock, s.log, s.lease.holder
	deps.API, deps.Settle, deps.Wake, deps.Counted = s.batchesOf, s.settleItem, s.wakeSteps, s.metrics.countLane
	return economyLane{
		Lane:  economy.New(deps, economy.Config{Gather: cfg.EconomyGather, LookEvery: cfg.EconomyLook, AdoptAfter: adoptBatches}),
		least: cfg.EconomyLeast, reserve: cfg.EconomyReserve,
	}
}

// batchesOf is the batch API of a provider, with its first key.
func (s *Service) batchesOf(name string) (economy.API, bool) {
	account, ok := s.models.current().accounts[name]
	if !ok || account.batches == nil {
		return nil, false
	}
	return account.batches, true
}

func (s *Service) wakeSteps(ctx context.Context, steps []*systemv1.StepRef) error {
	_, err := s.orchestrator.WakeSteps(ctx, &systemv1.WakeStepsRequest{Steps: steps})
	return err
}

// settleItem stores what came with a batch of one request, priced at the batch's discount. What is settled already is left
// alone.
func (s *Service) settleItem(ctx context.Context, item store.ItemRef, job store.Job, x provider.Exchange) error {
	models := s.models.current()
	account, ok := models.accounts[job.Provider]
	if !ok {
		return fmt.Errorf("there is no provider %q any more", job.Provider)
	}
	reading := account.format.read(x, s.clock.Now())
	o := store.Outcome{
		State: stateOf(x, reading.Failure), HTTPStatus: x.Status, Reason: reading.Failure.Reason, Message: reading.Failure.Message,
		FinishReason: reading.FinishReason, RequestID: reading.RequestID, Body: x.Body, Usage: reading.Usage,
		Latency: s.clock.Now().Sub(job.CreatedAt),
	}
	models.priceItem(&o, job, reading)
	if o.Basis == store.Unpriced {
		s.metrics.unpriced.WithLabelValues(job.Provider, modelName(job.Model)).Inc()
		s.log.ErrorContext(ctx, "what a batch's request has used has no price; its cost is unknown", "provider", job.Provider, "model", job.Model)
	}
	c := &store.Settle{Key: item.Key, TryNo: item.TryNo, OnlyInFlight: true, Outcome: o}
	if err := s.store.Submit(ctx, c); err != nil {
		return err
	}
	if c.Found {
		s.metrics.tried(job.Provider, job.Model, reading.Failure, o.Usage, c.Booked, o.Latency)
	}
	return nil
}

// priceItem fills in what a request of a batch has cost: what follows from the provider's counts; nothing, if it was refused;
// what was reserved, if nobody knows.
func (m *models) priceItem(o *store.Outcome, job store.Job, reading provider.Reading) {
	o.Basis = store.Counted
	if !reading.UsageKnown {
		if o.State == store.TryAnswered {
			o.Basis = store.WorstCase
		}
		return
	}
	usage := reading.Usage
	usage.Tier = price.Batch
	card, _ := m.prices.At(job.Provider, job.Model, job.CreatedAt)
	bill, err := card.Cost(usage)
	switch {
	case err == nil:
		o.Cost, o.PriceID, o.Tier, o.Split = bill.Total, bill.RowID, bill.Tier, bill.Split
	case errors.Is(err, price.ErrUnpriced):
		o.Basis = store.Unpriced
	default:
		o.Basis = store.WorstCase
	}
}
