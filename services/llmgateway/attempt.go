package llmgateway

import (
	"context"
	"errors"
	"slices"
	"time"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/llmgateway/failure"
	"pawl.internal/services/llmgateway/store"
)

// attempt is the asking for one question: the targets tried so far, and what came of them.
type attempt struct {
	service *Service
	flight  *flight
	// models are those of when it began, whatever file is read meanwhile.
	models *models
	// begin ends with the run's deadline; call, from the first permit on, with llm_timeout.
	begin  context.Context //nolint:containedctx // they bound the parts of one flight
	call   context.Context //nolint:containedctx // see begin
	cancel context.CancelFunc

	// calls is how many requests were sent.
	calls    int
	failures []failure.Failure
	last     outcome
}

func (a *attempt) close() {
	if a.cancel != nil {
		a.cancel()
	}
	a.service.models.putBack(a.models)
}

// run tries one target after the other. It is undecided when somebody else has taken the call meanwhile.
func (a *attempt) run(found store.Found) (o outcome, decided bool) {
	req := a.flight.ask.req
	known, ok := a.models.catalog.Route(req.GetRoute())
	if !ok {
		return outcome{failed: failedUnavailable("there is no route or model " + req.GetRoute())}, true
	}
	a.last.cost, a.last.spend = found.Cost, found.Spend
	r := newRoute(known.Targets, a.flight.ask.key.Digest, req.GetFailures(), req.GetFallbackAfter())
	i := r.first(found.AmbiguousTargets)
	if o, decided := a.enterLane(found, newRequest(a, r.targets[i], nil)); decided {
		return o, true
	}
	for {
		t := a.try(r, i)
		if !t.decided || t.failure.Class == failure.None || t.failure.Class == failure.Cancelled {
			return t.outcome, t.decided
		}
		a.failures, a.last = append(a.failures, t.failure), t.outcome
		next, more := r.next(i, t.failure, t.skipped)
		if !more || a.isSpent() || a.waitingFor().Err() != nil || a.flight.speech.begun() {
			return a.giveUp(), true
		}
		i = next
	}
}

// isSpent reports whether the step may send no more requests.
func (a *attempt) isSpent() bool { return a.calls >= int(a.flight.ask.req.GetCallsLeft()) }

// tried is what came of asking one target.
type tried struct {
	outcome outcome
	// failure is none when the outcome is final in any case.
	failure failure.Failure
	// decided is false when the call was taken by somebody else.
	decided bool
	// skipped is true when nothing was sent.
	skipped bool
}

// try asks a target: with one of its provider's keys, and as long as that is refused at once with the next one, which spends
// no request of the step's. A target that rests is not asked.
func (a *attempt) try(r *route, i int) tried {
	account := a.models.accounts[r.targets[i].Provider.Name]
	if f, rests := a.rests(r, i); rests {
		return a.skip(f)
	}
	var used []*keyed
	for key := account.choose(nil, a.service.clock.Now()); ; {
		q := newRequest(a, r.targets[i], key)
		t := q.do()
		mayWalk := refusesKey(t.failure) || emptiesKey(t.failure) && !a.isSpent()
		if !mayWalk || t.skipped || a.waitingFor().Err() != nil || a.flight.speech.begun() {
			return t
		}
		used = append(used, key)
		if key = account.choose(used, a.service.clock.Now()); key == nil {
			return t
		}
		if refusesKey(t.failure) {
			a.calls--
		}
		a.last = t.outcome
	}
}

// rests says why the target is not to be asked now, as far as that is known without asking; false if it may be.
func (a *attempt) rests(r *route, i int) (failure.Failure, bool) {
	t := r.targets[i]
	empty := failure.Failure{
		Class: failure.Quota, Reason: failure.ReasonQuota, Message: "the account of " + t.Provider.Name + " has no money left, as it said before",
	}
	if _, more := r.peek(i, empty, true); more && a.models.accounts[t.Provider.Name].isEmpty(a.service.clock.Now()) {
		return empty, true
	}
	if wait := a.service.breakers.Wait(breakerOf(t)); wait > 0 {
		return resting(t, wait), true
	}
	return failure.Failure{}, false
}

// skip is how a target is passed over.
func (a *attempt) skip(f failure.Failure) tried {
	return tried{
		outcome: outcome{failed: failedWith(f), cost: a.last.cost, spend: a.last.spend, calls: a.calls},
		failure: f, decided: true, skipped: true,
	}
}

// giveUp returns the failure that helps the step most, with the cost of all requests.
func (a *attempt) giveUp() outcome {
	o := a.last
	f := mostUseful(a.failures)
	o.failed = failedWith(f)
	if isPassing := o.failed.class == systemv1.Outcome_FAILURE_CLASS_TRANSIENT; isPassing && a.isUsedUp(f) {
		o.failed.class = systemv1.Outcome_FAILURE_CLASS_PERMANENT
	}
	return o
}

// isUsedUp reports whether the step has failed as often as the failure is worth trying again.
func (a *attempt) isUsedUp(f failure.Failure) bool {
	return f.MostRetries > 0 && a.flight.ask.req.GetFailures() >= int32(f.MostRetries)
}

// interruptedWith is how the attempt ends when waiting for a permit was cut short: with the failure of a target that was
// tried before, if there is one.
func (a *attempt) interruptedWith(ctx context.Context, err error) outcome {
	if len(a.failures) > 0 && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return a.giveUp()
	}
	o := a.service.interrupted(ctx, err)
	o.cost, o.spend, o.calls = a.last.cost, a.last.spend, a.calls
	return o
}

// waitingFor is the context under which a permit is awaited.
func (a *attempt) waitingFor() context.Context {
	if a.call != nil {
		return a.call
	}
	return a.begin
}

// start begins llm_timeout with the first permit, and tells the callers of every one that was awaited.
func (a *attempt) start(wait time.Duration) {
	if a.call == nil {
		a.call, a.cancel = context.WithTimeout(a.flight.ctx, a.flight.ask.req.GetLlmTimeout().AsDuration())
	}
	a.flight.markGranted(wait)
}

// wasSent reports whether a request in the state may have reached its provider.
func wasSent(state store.TryState) bool {
	return slices.Contains([]store.TryState{store.TryAnswered, store.TryFailed, store.TryAmbiguous, store.TryCancelled}, state)
}
