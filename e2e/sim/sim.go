package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"pawl.internal/services/orchestrator/machine"
)

// Options say what is simulated.
type Options struct {
	// Seed decides everything that happens.
	Seed uint64
	// Trace, if set, gets a readable line for everything that happens.
	Trace io.Writer
	// Break is a guard that is left out, in order to see that somebody notices; empty for none.
	Break Guard
}

// Result is what came of a simulation.
type Result struct {
	Seed uint64
	// Failure is the promise that was broken; nil if all were kept.
	Failure *Failure
	// Digest is the same for everything that happens in the same way.
	Digest uint64
	// Seen counts what happened, by kind.
	Seen Coverage
	// Took is how long it took, by the fake clock.
	Took time.Duration
}

// Failure is a promise that was broken.
type Failure struct {
	Promise Promise
	Detail  string
	// At is the time of the fake clock.
	At time.Duration
}

// Error names the promise, what breaks it, and the time in the simulation.
func (f *Failure) Error() string { return fmt.Sprintf("%s: %s (at %v)", f.Promise, f.Detail, f.At) }

const (
	// lease is how long runners and gateways may be silent, as by default.
	lease = 10 * time.Second
	// mostTime bounds a simulation; what has not come to rest by then never will.
	mostTime = 15 * time.Minute
)

// Sim is one simulation.
type Sim struct {
	seed   uint64
	random *rand.Rand
	trace  io.Writer
	broken Guard

	now    time.Duration
	queue  queue
	digest uint64
	seen   Coverage
	ids    uint64
	// healed is true when nothing breaks any more, since healedAt.
	healed   bool
	healedAt time.Duration
	over     bool
	// storesTroubled is when PostgreSQL or Redis was last away.
	storesTroubled time.Duration

	pg     *postgres
	core   *core
	ledger *ledger
	redis  *redis

	orchestrators []*orchestrator
	runners       []*runner
	gateways      []*gateway
	provider      *provider
	outside       *outside
	clients       *clients
	oracle        *oracle
	chaos         *chaos
}

// Run simulates once, until all is quiet or a promise is broken.
func Run(o Options) Result {
	s := newSim(o)
	failure := s.run()
	return Result{Seed: o.Seed, Failure: failure, Digest: s.digest, Seen: s.seen, Took: s.now}
}

func newSim(o Options) *Sim {
	s := &Sim{
		seed: o.Seed, random: rand.New(rand.NewPCG(o.Seed, 0)), trace: o.Trace, broken: o.Break, digest: 14695981039346656037, //nolint:gosec // not for secrets
	}
	s.oracle = newOracle(s)
	s.pg, s.core, s.ledger, s.redis = newPostgres(s), newCore(s), newLedger(s), newRedis(s)
	s.provider, s.outside, s.clients = newProvider(s), newOutside(s), newClients(s)
	for i := range 1 + s.below(3) {
		s.orchestrators = append(s.orchestrators, newOrchestrator(s, i))
	}
	for i := range 1 + s.below(3) {
		s.gateways = append(s.gateways, newGateway(s, i))
	}
	for i := range 1 + s.below(3) {
		s.runners = append(s.runners, newRunner(s, i))
	}
	s.chaos = newChaos(s)
	return s
}

// run carries out event after event.
func (s *Sim) run() (failure *Failure) {
	defer func() {
		if p := recover(); p != nil {
			f, broken := p.(*Failure)
			if !broken {
				panic(p)
			}
			failure = f
		}
	}()
	for _, p := range s.processes() {
		p.start()
	}
	s.clients.begin()
	s.chaos.begin()
	s.oracle.begin()
	for !s.over {
		e, ok := s.queue.pop()
		if !ok || e.at > mostTime {
			s.oracle.neverQuiet()
		}
		s.now = e.at
		e.run(s)
	}
	return nil
}

// processes are those that may crash and sleep.
func (s *Sim) processes() []*process {
	var all []*process
	for _, o := range s.orchestrators {
		all = append(all, o.process)
	}
	for _, g := range s.gateways {
		all = append(all, g.process)
	}
	for _, r := range s.runners {
		all = append(all, r.process)
	}
	return all
}

// begin is the time of PostgreSQL's clock at which simulations begin.
var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// pgNow is PostgreSQL's clock.
func (s *Sim) pgNow() time.Time { return begin.Add(s.now) }

// below returns a number in [0, n).
func (s *Sim) below(n int) int { return s.random.IntN(n) }

// chance is true with that probability.
func (s *Sim) chance(p float64) bool { return s.random.Float64() < p }

// mishap is chance while things still go wrong.
func (s *Sim) mishap(p float64) bool { return !s.healed && s.chance(p) }

// between returns a time in [a, b).
func (s *Sim) between(a, b time.Duration) time.Duration {
	return a + time.Duration(s.random.Int64N(int64(b-a)))
}

func pick[T any](s *Sim, from ...T) T { return from[s.below(len(from))] }

// id returns one that nobody has: a fence, or an instance of a process.
func (s *Sim) id() machine.ID {
	s.ids++
	var id machine.ID
	for i := range 8 {
		id[15-i] = byte(s.ids >> (8 * i))
	}
	return id
}

// number is the number of an id, for traces.
func number(id machine.ID) (n uint64) {
	for i := range 8 {
		n = n<<8 | uint64(id[8+i])
	}
	return n
}

// fail ends the simulation: a promise is broken.
func (s *Sim) fail(p Promise, format string, args ...any) {
	panic(&Failure{Promise: p, Detail: fmt.Sprintf(format, args...), At: s.now})
}

// note writes a line of the trace.
func (s *Sim) note(who, format string, args ...any) {
	if s.trace != nil {
		_, _ = fmt.Fprintf(s.trace, "%12.6f  %-14s  %s\n", s.now.Seconds(), who, fmt.Sprintf(format, args...))
	}
}

// mix adds to the digest what has happened.
func (s *Sim) mix(values ...uint64) {
	for _, v := range values {
		s.digest = (s.digest ^ v) * 1099511628211
	}
}
