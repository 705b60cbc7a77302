package chaos

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pawl.internal/e2e/harness"
	"pawl.internal/e2e/link"
	"pawl.internal/services/cmd/pawl/serve"
)

// pair is a way between two services, or from a service to a store or the provider.
type pair struct{ from, to string }

// pairs lists every way that there is in a fleet, but the one to the provider.
func pairs() []pair {
	return []pair{
		{serve.Intake, serve.Orchestrator},
		{serve.Intake, serve.LLMGateway},
		{serve.Orchestrator, serve.LLMGateway},
		{serve.LLMGateway, serve.Orchestrator},
		{serve.StepRunner, serve.Orchestrator},
		{serve.StepRunner, serve.LLMGateway},
		{serve.Intake, harness.ToPostgres},
		{serve.Orchestrator, harness.ToPostgres},
		{serve.LLMGateway, harness.ToPostgres},
		{serve.Intake, harness.ToRedis},
		{serve.Orchestrator, harness.ToRedis},
		{serve.LLMGateway, harness.ToRedis},
		{serve.StepRunner, harness.ToRedis},
	}
}

// toProvider is the one way on which a request may be lost of which nobody knows whether it was charged.
func toProvider() pair { return pair{serve.LLMGateway, harness.ToProvider} }

// network is the links of a fleet: one from each replica to each that it calls.
type network map[pair][]*link.Link

// route puts a link into a way of the fleet.
func (n network) route(t *testing.T) func(harness.Edge) string {
	return func(e harness.Edge) string {
		l := link.New(t, e.Address)
		p := pair{serviceOf(e.From), serviceOf(e.To)}
		n[p] = append(n[p], l)
		return l.Address()
	}
}

// serviceOf is the service of a replica; what is none is itself.
func serviceOf(process string) string {
	for _, service := range harness.Services() {
		if strings.HasPrefix(process, service+"-") {
			return service
		}
	}
	return process
}

// disturb lets all links of a pair fail for a time. It returns when they are healthy again.
func (n network) disturb(t *testing.T, p pair, during time.Duration, how func(*link.Link)) {
	t.Helper()
	links := n.of(t, p)
	for _, l := range links {
		how(l)
	}
	defer func() {
		for _, l := range links {
			l.Heal()
		}
	}()
	last(t, during)
}

// of returns the links of a pair for a subtest.
func (n network) of(t *testing.T, p pair) (links []*link.Link) {
	t.Helper()
	for _, l := range n[p] {
		links = append(links, l.For(t))
	}
	if len(links) == 0 {
		t.Fatalf("there is no link from %s to %s", p.from, p.to)
	}
	return links
}

// each lets the links of the pairs fail, one pair after the other, each for a time and while clients submit.
func (n network) each(ways []pair, during func(pair) time.Duration, how func(*link.Link)) func(*testing.T, *harness.Fleet) {
	return func(t *testing.T, f *harness.Fleet) {
		for _, p := range ways {
			t.Logf("%s to %s", p.from, p.to)
			n.disturb(t, p, during(p), how)
		}
	}
}

// resets breaks the connections of each pair again and again, at random moments.
func (n network) resets(ways []pair) func(*testing.T, *harness.Fleet) {
	return func(t *testing.T, f *harness.Fleet) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		for _, p := range ways {
			t.Logf("%s to %s", p.from, p.to)
			for began := time.Now(); time.Since(began) < shortly(p); {
				n.disturb(t, p, time.Duration(10+random.IntN(90))*time.Millisecond, (*link.Link).Reset)
				last(t, time.Duration(50+random.IntN(250))*time.Millisecond)
			}
		}
	}
}

// networkPace spreads the submits over the disturbances of all pairs, of which the longest together last 33 s.
const networkPace = 700 * time.Millisecond

// beyondLease is so long that whoever it parts from its lease loses it.
func beyondLease(pair) time.Duration { return lease * 5 / 4 }

// shortly is for faults that need not outlast anything.
func shortly(pair) time.Duration { return lease / 2 }

// asLong is beyondLease for the ways that leases are renewed on, and shortly for the others.
func asLong(p pair) time.Duration {
	if p.to == harness.ToPostgres || p.from == serve.StepRunner && p.to == serve.Orchestrator {
		return beyondLease(p)
	}
	return shortly(p)
}

// tooSlow delays answers beyond the deadline of heartbeats, which is a fifth of a lease.
func tooSlow(l *link.Link) { l.Slow(lease/4, lease/20) }

// slow delays answers so that heartbeats just come in time.
func slow(l *link.Link) { l.Slow(lease/16, lease/80) }

// slowStore is slow for what lies between a service and PostgreSQL, which a heartbeat passes several times.
func slowStore(l *link.Link) { l.Slow(lease/80, lease/160) }

// TestI04_NothingIsLostWithANetwork severs, swallows, delays and resets what passes between every two programs. Nothing that
// was accepted is lost, and no call is paid for twice, but for those that may have been charged when the way to the provider
// broke: each of these is on record.
func TestI04_NothingIsLostWithANetwork(t *testing.T) {
	n := network{}
	f := start(t, harness.FleetConfig{Route: n.route(t)})
	provider := []pair{toProvider()}
	stores, others := split(pairs())
	for _, c := range []struct {
		name  string
		short bool
		fault fault
	}{
		{"severed", false, fault{name: "every link severed in turn, longer than a lease", pace: networkPace, strike: n.each(pairs(), beyondLease, (*link.Link).Cut)}},
		{"black hole", false, fault{name: "every link swallows everything in turn, longer than a lease", pace: networkPace, strike: n.each(pairs(), beyondLease, (*link.Link).Blackhole)}},
		{"too slow", false, fault{name: "every link slower than heartbeats may be, in turn", pace: networkPace, doubts: true, strike: n.each(pairs(), asLong, tooSlow)}},
		{"slow", false, fault{name: "every link as slow as heartbeats may be, in turn", pace: networkPace, strike: func(t *testing.T, f *harness.Fleet) {
			n.each(others, shortly, slow)(t, f)
			n.each(provider, shortly, slow)(t, f)
			n.each(stores, shortly, slowStore)(t, f)
		}}},
		{"reset", true, fault{name: "every link reset at random, in turn", pace: networkPace, strike: n.resets(pairs())}},
		{"provider severed", false, fault{name: "gateways' link to the provider severed", doubts: true, strike: n.each(provider, shortly, (*link.Link).Cut)}},
		{"provider black hole", false, fault{name: "gateways' link to the provider swallows everything", doubts: true, strike: n.each(provider, beyondLease, (*link.Link).Blackhole)}},
		{"provider reset", true, fault{name: "gateways' link to the provider reset at random", doubts: true, strike: n.resets(provider)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !c.short {
				full(t)
			}
			endure(t, f.For(t), c.fault)
		})
	}
}

// split parts the ways to PostgreSQL from the others.
func split(all []pair) (stores, others []pair) {
	for _, p := range all {
		if p.to == harness.ToPostgres {
			stores = append(stores, p)
		} else {
			others = append(others, p)
		}
	}
	return stores, others
}
