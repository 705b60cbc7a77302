package llmgateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"pawl.internal/services/llmgateway/catalog"
	"pawl.internal/services/llmgateway/failure"
	"pawl.internal/services/llmgateway/permit"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/store"
)

// limitsOf is what the catalogue says of every limit group.
func limitsOf(c *catalog.Catalog) map[string]permit.Limit {
	limits := make(map[string]permit.Limit, len(c.Groups))
	for name, g := range c.Groups {
		limits[name] = permit.Limit{
			Concurrency: g.Concurrency, Requests: g.Requests, Tokens: g.Tokens, InputTokens: g.InputTokens, OutputTokens: g.OutputTokens,
			InteractiveReserve: g.InteractiveReserve, BatchFloor: g.BatchFloor, Adaptive: g.Adaptive,
		}
	}
	return limits
}

// acquire waits for a permit for the worst case of the request.
func (r *request) acquire(ctx context.Context) (*permit.Permit, error) {
	a := r.flight.ask
	class, _ := a.class()
	deadline, _ := ctx.Deadline()
	group := r.target.Provider.Group
	return r.service.permits.Acquire(ctx, permit.Need{
		Group: group, Class: class, Tenant: a.req.GetTenant(), Input: a.mostInput(), Output: r.maxOutput(), Deadline: deadline,
	}, func() { r.flight.markWaiting(group) })
}

// withoutPermit is how the request ends when it got no permit. Where waiting is in vain or too long, that is a failure as a
// provider's that we ask too fast would be, which has cost nothing.
func (r *request) withoutPermit(ctx context.Context, err error) (outcome, failure.Failure) {
	refusal, ok := errors.AsType[*permit.Refusal](err)
	if !ok {
		return r.interruptedWith(ctx, err), failure.Failure{}
	}
	f := failure.Failure{Class: failure.Rate, Reason: failure.ReasonRate, Message: refusal.Error(), Wait: refusal.Wait}
	if refusal.Deadline {
		f.Reason = failure.ReasonDeadline
	}
	return outcome{failed: failedWith(f), cost: r.last.cost, spend: r.last.spend, calls: r.calls}, f
}

// settlePermit replaces the estimate by what the request has used, and tells what the answer says of the limits.
func (r *request) settlePermit(held *permit.Permit, sent time.Time, x provider.Exchange, reading provider.Reading) {
	if !x.Sent {
		held.Unsent()
		return
	}
	defer held.Settle(usedBy(x, reading)) // after the feedback, so that a limited answer's permit is not used again at once
	limited := reading.Failure.Class == failure.Rate
	if !limited && stateOf(x, reading.Failure) != store.TryAnswered {
		return // it says nothing of the limits
	}
	f := permit.Feedback{Limited: limited, Sent: sent, Rooms: roomsIn(x.Header, r.service.clock.Now())}
	if limited {
		f.Wait, f.SlowDown = reading.Failure.Wait, reading.Failure.Code == "slow_down"
	}
	r.service.permits.Feedback(r.target.Provider.Group, f)
}

// roomsIn is what an answer's headers say of the account's limits.
func roomsIn(header http.Header, now time.Time) []permit.Room {
	dimensions := map[failure.Dimension]permit.Dimension{
		failure.Requests: permit.Requests, failure.Tokens: permit.Tokens,
		failure.InputTokens: permit.InputTokens, failure.OutputTokens: permit.OutputTokens,
	}
	var rooms []permit.Room
	for _, room := range failure.Headroom(header, now) {
		if of, ok := dimensions[room.Of]; ok {
			rooms = append(rooms, permit.Room{Of: of, Limit: room.Limit, Remaining: room.Remaining, Reset: room.Reset})
		}
	}
	return rooms
}

// usedBy is what the provider has counted of a request: nothing, if it refused; what nobody knows, if it failed halfway.
func usedBy(x provider.Exchange, reading provider.Reading) permit.Used {
	refused := x.Status >= http.StatusBadRequest && x.Status < http.StatusInternalServerError
	switch {
	case reading.UsageKnown:
		return permit.Used{Input: reading.Usage.Input, Output: reading.Usage.Output, Known: true}
	default:
		return permit.Used{Known: refused}
	}
}
