package sim

import (
	"time"

	"pawl.internal/services/orchestrator/machine"
)

// provider is the other side of a model call. It counts what it is asked.
type provider struct {
	s     *Sim
	asked map[callKey][]*providerRequest
}

// providerRequest is a request as the provider sees it.
type providerRequest struct {
	// refused says that it surely brought no answer and cost nothing; aborted that we broke it off on purpose.
	refused, aborted bool
}

func newProvider(s *Sim) *provider { return &provider{s: s, asked: map[callKey][]*providerRequest{}} }

// send brings a request to the provider, and its answer back to the flight.
func (p *provider) send(f *flight, b *beginTry) {
	s, g := p.s, f.g
	req := &providerRequest{}
	s.oracle.sends(f, b, p.asked[b.key])
	p.asked[b.key] = append(p.asked[b.key], req)
	s.seen.count(SeenRequest)
	over := false
	settle := func(x exchange) {
		if !over {
			over, f.onEnd = true, nil
			f.settle(b, x)
		}
	}
	f.onEnd = func() { // the connection is closed
		if f.ended == endedCancelled {
			req.aborted = true
			s.seen.count(SeenConnectionClosed)
			settle(exchange{settlement{state: tryCancelled, worstCase: true}, reply{end: outPermanent, reason: machine.ReasonCancelled}})
		}
	}
	g.after(max(f.callEnd-g.clock(), 0), func() {
		if !over {
			settle(unsure(s))
		}
	})
	life := g.life
	answer := func(x exchange) {
		s.queue.add(event{at: s.now + s.travel(), process: g.process, life: life, do: func() { settle(x) }})
	}
	p.conduct(req, answer)
}

// unsure is a request that was sent and has no answer.
func unsure(s *Sim) exchange {
	s.seen.count(SeenUnsure)
	return exchange{settlement{state: tryAmbiguous, worstCase: true}, reply{end: outAmbiguous, reason: machine.ReasonCallAmbiguous}}
}

// conduct decides what the provider does.
func (p *provider) conduct(req *providerRequest, answer func(exchange)) {
	s := p.s
	refuse := func(kind Seen, end ending, reason machine.Reason, wait time.Duration) {
		req.refused = true
		s.seen.count(kind)
		answer(exchange{settlement{state: tryFailed}, reply{end: end, reason: reason, wait: wait}})
	}
	s.queue.add(event{at: s.now + s.between(20*time.Millisecond, 3*time.Second), do: func() {
		n := 100
		if !s.healed {
			n = s.below(100)
		}
		switch {
		case n < 5:
			refuse(SeenRateLimited, outParked, machine.ReasonProvider429, s.between(time.Second, 8*time.Second))
		case n < 8:
			refuse(SeenRateLimited, outTransient, machine.ReasonProvider429, 0)
		case n < 14:
			refuse(SeenProviderError, outTransient, machine.ReasonProvider503, 0)
		case n < 16:
			refuse(SeenProviderRefused, outPermanent, machine.ReasonInvalidInput, 0)
		case n < 19:
			s.seen.count(SeenProviderHangs)
		case n < 22:
			s.seen.count(SeenProviderDrops)
			answer(unsure(s))
		case n < 30:
			s.seen.count(SeenBadAnswer)
			answer(exchange{settlement{state: tryAnswered, cost: s.price()}, reply{end: outSucceeded, atFault: true}})
		default:
			answer(exchange{settlement{state: tryAnswered, cost: s.price(), good: true}, reply{end: outSucceeded}})
		}
	}})
}

func (s *Sim) price() int64 { return int64(1 + s.below(worstCase)) }
