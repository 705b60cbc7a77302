package llmgateway

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"

	"pawl.internal/services/internal/fault"
	"pawl.internal/services/llmgateway/failure"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/store"
)

// How often a call is looked at that another replica has in flight: at first soon, then less and less.
const (
	firstLook = 10 * time.Millisecond
	lastLook  = 250 * time.Millisecond
)

// fly brings a flight to its end.
func (s *Service) fly(f *flight) {
	s.metrics.inFlight.Inc()
	defer s.metrics.inFlight.Dec()
	defer f.end(nil)
	o := s.guarded(f)
	s.metrics.calls.WithLabelValues(o.result()).Inc()
	if o.unsettled != nil {
		// The callers need not wait; but nobody else may ask the question here until this is settled.
		f.finish(o)
		_ = s.persist(&store.Settle{Key: f.ask.key, Holder: s.lease.holder, Outcome: *o.unsettled}) // the callers have been told
		s.flights.remove(f)
		return
	}
	s.flights.remove(f)
	f.finish(o)
}

// guarded is resolve; a panic ends this flight alone, and not with the process all others too. The fate of its request is
// unknown then.
func (s *Service) guarded(f *flight) (o outcome) {
	defer func() {
		if p := recover(); p != nil {
			err := fault.FromPanic(p)
			s.metrics.panics.Inc()
			s.log.Error("call panicked", "run_id", f.ask.key.RunID, "error", err)
			unknown := unknownFate("the gateway had a fault of its own in the middle of the call")
			o = outcome{err: err, unsettled: &unknown}
		}
	}()
	return s.resolve(f)
}

// resolve answers the question: from the store, from a request that another replica has in flight, or by asking.
func (s *Service) resolve(f *flight) outcome {
	begin, cancel := context.WithTimeout(f.ctx, f.ask.req.GetDeadlineIn().AsDuration())
	defer cancel()
	a := &attempt{service: s, flight: f, models: s.models.take(), begin: begin}
	defer a.close()
	for look := firstLook; ; look = min(2*look, lastLook) {
		found, err := s.store.Find(begin, f.ask.key)
		if err != nil {
			return s.interrupted(begin, err)
		}
		f.markBegun(found.Since)
		if found.State == "" {
			if key, earlier, ok, err := s.corrected(begin, f.ask); err != nil {
				return s.interrupted(begin, err)
			} else if ok {
				return s.replay(f, key, earlier)
			}
		}
		switch found.State {
		case store.CallAnswered:
			return s.replay(f, f.ask.key, found)
		case store.CallInFlight:
			if found.InLane {
				return a.inLane(found)
			}
			if err := s.clock.Sleep(begin, look); err != nil {
				return s.interrupted(begin, err)
			}
			continue
		case store.CallAmbiguous, store.CallFailed, store.CallCancelled:
		}
		if len(found.AmbiguousTargets) > 0 { // perhaps behind a request that failed since
			allowed, err := s.mayAskAgain(begin, f.ask)
			if err != nil {
				return s.interrupted(begin, err)
			}
			if !allowed {
				return outcome{failed: failedAmbiguous(), cost: found.Cost, spend: found.Spend, calls: a.calls}
			}
		}
		if o, decided := a.run(found); decided {
			return o
		}
	}
}

// mayAskAgain reports whether the step may send another request although some are of unknown fate: not unless its policy
// has allowed for all of them.
func (s *Service) mayAskAgain(ctx context.Context, a *ask) (bool, error) {
	step := a.req.GetStep()
	n, err := s.store.CountAmbiguous(ctx, a.key.RunID, step.GetStep(), step.GetShard(), step.GetGeneration())
	return n <= int(a.req.GetAmbiguousOk()), err
}

// interrupted says why a flight ended before anything was sent.
func (s *Service) interrupted(ctx context.Context, err error) outcome {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errCancelled):
		return outcome{failed: failedCancelled()}
	case errors.Is(cause, errStopping):
		return outcome{err: fault.Unavailable(errStopping, "the gateway is stopping; ask another one")}
	case errors.Is(cause, context.DeadlineExceeded):
		return outcome{failed: failedDeadline()}
	default:
		return outcome{err: err}
	}
}

// replay answers with what is stored. The body is read anew: it is the truth.
func (s *Service) replay(f *flight, key store.Key, found store.Found) outcome {
	x := provider.Exchange{
		Status: found.Answer.HTTPStatus, Body: found.Answer.Body, Sent: true, TooLong: len(found.Answer.Body) >= provider.MaxBody,
	}
	reading, err := read(found.Answer.Format, x, s.clock.Now())
	if err != nil {
		return outcome{err: fault.Internal(err)}
	}
	o := outcome{
		reading: reading, provider: found.Answer.Provider, model: found.Answer.Model, cost: found.Cost, spend: found.Spend, replayed: true,
	}
	o.usage.Input, o.usage.Output, o.usage.CachedInput = found.InputTokens, found.OutputTokens, found.Answer.CachedInputTokens
	if reading.Failure.Class != failure.None {
		o.failed = failedWith(reading.Failure)
	}
	s.count(f, key)
	return o
}

// count notes that a stored answer was used again. An answer is worth more than its count.
func (s *Service) count(f *flight, key store.Key) {
	if err := s.store.Submit(context.WithoutCancel(f.ctx), &store.Replay{Key: key}); err != nil {
		s.log.Warn("replay not counted", "run_id", f.ask.key.RunID, "error", err)
	}
}

// errUnstorable says that the store has refused an answer for good.
var errUnstorable = errors.New("the answer cannot be stored")

// persist stores a change that must not be lost, however long the store is away: what an answer cost, and the answer. It
// gives up only when the gateway ends. A change that the store refuses for what is in it would be refused for ever: in its
// place the request is stored as one of unknown fate, with nothing that anybody has sent, and errUnstorable returned.
func (s *Service) persist(c *store.Settle) error {
	const firstWait, lastWait = 20 * time.Millisecond, time.Second
	s.metrics.unstored.Inc()
	defer s.metrics.unstored.Dec()
	var refused error
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		err := s.store.Submit(context.WithoutCancel(s.ended), c)
		if err == nil {
			return refused
		}
		if code := fault.CodeOf(err); code != codes.Unavailable {
			s.log.Error("answer cannot be stored", "run_id", c.Key.RunID, "try", c.TryNo, "error", err)
			if code == codes.Internal && refused == nil {
				refused = errUnstorable
				c.Outcome = unknownFate("the answer came and could not be stored; the gateway's log says why")
			}
		}
		if s.clock.Sleep(s.ended, wait) != nil {
			return errStopping
		}
	}
}

// unknownFate is what is stored of a request when nothing can be said of its answer.
func unknownFate(message string) store.Outcome {
	return store.Outcome{State: store.TryAmbiguous, Reason: failure.ReasonAmbiguous, Basis: store.WorstCase, Message: message}
}
