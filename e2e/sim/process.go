package sim

import "time"

// process is a program: it has a clock of its own, may sleep, and forgets everything when it crashes.
type process struct {
	s    *Sim
	no   int
	name string
	up   bool
	// life counts the starts: what an earlier life has begun comes to nothing.
	life int
	// asleep is until when it is stopped (SIGSTOP).
	asleep time.Duration
	// rate and offset are those of its clock.
	rate   float64
	offset time.Duration
	// callers are told when it crashes: their connections break.
	callers []*caller
	// boot begins a life; terminate is told to end one in good order (SIGTERM), and calls exit.
	boot, terminate func()
	// troubled is when it was last down, asleep or cut off.
	troubled time.Duration
}

// caller waits for the answer of a process.
type caller struct {
	done   bool
	broken func()
}

func (s *Sim) newProcess(no int, name string) *process {
	return &process{
		s: s, no: no, name: name, rate: 0.96 + 0.08*s.random.Float64(), offset: s.between(-time.Hour, time.Hour) + 2*time.Hour,
	}
}

// clock is its own, which nobody else's agrees with.
func (p *process) clock() time.Duration {
	return p.offset + time.Duration(float64(p.s.now)*p.rate)
}

// start begins a life.
func (p *process) start() {
	p.up, p.asleep, p.troubled = true, 0, p.s.now
	p.life++
	p.boot()
}

// after does something later, by its own clock, unless it crashes before.
func (p *process) after(d time.Duration, do func()) {
	at := p.s.now + time.Duration(float64(d)/p.rate)
	p.s.queue.add(event{at: at, process: p, life: p.life, do: do})
}

// every does something now and then again and again.
func (p *process) every(d time.Duration, do func()) {
	do()
	p.after(d, func() { p.every(d, do) })
}

// at is a point between two actions, at which it may crash or be stopped. Go goes on from there.
func (p *process) at(point string, goOn func()) {
	switch {
	case p.s.mishap(0.004):
		p.s.note(p.name, "dies at %s", point)
		p.s.seen.count(SeenCrashAtPoint)
		p.crash(p.s.between(100*time.Millisecond, 8*time.Second))
		return
	case p.s.mishap(0.006):
		p.s.note(p.name, "is stopped at %s", point)
		p.sleep(p.s.between(500*time.Millisecond, 25*time.Second))
	}
	if p.s.now < p.asleep {
		p.after(0, goOn)
		return
	}
	goOn()
}

// crash ends it at once; it starts again after a while.
func (p *process) crash(away time.Duration) {
	if !p.up {
		return
	}
	p.s.note(p.name, "crashes for %v", away)
	p.s.seen.count(SeenCrash)
	p.exit(away)
}

// exit ends it, and starts it again after a while.
func (p *process) exit(away time.Duration) {
	p.up = false
	p.breakOff()
	p.s.queue.add(event{at: p.s.now + away, do: func() {
		if !p.up {
			p.s.note(p.name, "starts")
			p.start()
		}
	}})
}

// sleep stops it for a while.
func (p *process) sleep(d time.Duration) {
	if !p.up {
		return
	}
	p.s.note(p.name, "sleeps for %v", d)
	p.s.seen.count(SeenPause)
	p.asleep = max(p.asleep, p.s.now+d)
}

func (p *process) breakOff() {
	callers := p.callers
	p.callers = nil
	for _, c := range callers {
		if !c.done {
			c.broken()
		}
	}
}

// serve remembers a caller, and forgets those that have had their answers.
func (p *process) serve(c *caller) {
	if len(p.callers) >= 32 {
		open := p.callers[:0]
		for _, old := range p.callers {
			if !old.done {
				open = append(open, old)
			}
		}
		p.callers = open
	}
	p.callers = append(p.callers, c)
}
