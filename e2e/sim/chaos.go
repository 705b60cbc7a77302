package sim

import "time"

// chaos lets things break until everything heals.
type chaos struct {
	s        *Sim
	until    time.Duration
	cutOff   *process
	cutUntil time.Duration
}

func newChaos(s *Sim) *chaos { return &chaos{s: s, until: s.between(20*time.Second, 45*time.Second)} }

// begin plans some faults, and when everything heals.
func (c *chaos) begin() {
	for range c.s.below(14) {
		c.s.queue.add(event{at: c.s.between(500*time.Millisecond, c.until), do: c.strike})
	}
	for range c.s.below(6) {
		c.s.queue.add(event{at: c.s.between(time.Second, c.until), do: c.s.clients.decision})
	}
	c.s.queue.add(event{at: c.until, do: c.heal})
}

// heal ends all that goes wrong by chance. Who sleeps, or is away, comes back by itself.
func (c *chaos) heal() {
	s := c.s
	s.note("chaos", "everything heals")
	s.healed, s.healedAt = true, max(s.now, s.pg.away, s.redis.away, c.cutUntil)
	for _, p := range s.processes() {
		s.healedAt = max(s.healedAt, p.asleep)
	}
	s.clients.after(s.healedAt-s.now+10*time.Second, s.clients.resumeAll)
}

// strike lets something break.
func (c *chaos) strike() {
	s := c.s
	all := s.processes()
	p := all[s.below(len(all))]
	switch s.below(12) {
	case 0, 1, 2:
		p.crash(s.between(100*time.Millisecond, 8*time.Second))
	case 3, 4:
		p.sleep(s.between(500*time.Millisecond, 25*time.Second))
	case 5:
		if p.up && s.now >= p.asleep {
			s.note(p.name, "is asked to leave")
			s.seen.count(SeenTerminate)
			p.terminate()
		}
	case 6:
		c.cutOff, c.cutUntil = p, s.now+s.between(time.Second, 20*time.Second)
		s.seen.count(SeenCutOff)
		s.note(p.name, "is cut off until %v", c.cutUntil)
	case 7:
		s.pg.stop(s.between(500*time.Millisecond, 14*time.Second))
	case 8:
		s.pg.crash(s.between(500*time.Millisecond, 5*time.Second))
	case 9:
		s.redis.stop(s.between(500*time.Millisecond, 12*time.Second))
	case 10:
		s.redis.flush()
	case 11:
		s.redis.lose()
	}
}

// powerCut ends a runner and PostgreSQL at once.
func (s *Sim) powerCut(p *process) {
	s.note("chaos", "the power fails at %s and the database", p.name)
	s.seen.count(SeenPowerCut)
	s.pg.crash(s.between(500*time.Millisecond, 3*time.Second))
	p.crash(s.between(time.Second, 8*time.Second))
}

// looksForTrouble notes who is not well.
func (s *Sim) looksForTrouble() {
	for _, p := range s.processes() {
		if !p.up || s.now < p.asleep || s.cut(p, nil) {
			p.troubled = s.now
		}
	}
	if !s.pg.up() || !s.redis.up() {
		s.storesTroubled = s.now
	}
}

// processesCalm reports whether no process has been in trouble for so long; calm, whether the stores were well, too.
func (s *Sim) processesCalm(d time.Duration) bool {
	for _, p := range s.processes() {
		if !p.up || s.now < p.asleep+d || s.now < p.troubled+d {
			return false
		}
	}
	return true
}

func (s *Sim) calm(d time.Duration) bool {
	return s.processesCalm(d) && s.pg.up() && s.redis.up() && s.now >= s.storesTroubled+d
}

// anOrchestrator is the one that a caller is led to.
func (s *Sim) anOrchestrator() *orchestrator { return s.orchestrators[s.below(len(s.orchestrators))] }

// aGateway is the one that a caller is led to.
func (s *Sim) aGateway() *gateway { return s.gateways[s.below(len(s.gateways))] }
