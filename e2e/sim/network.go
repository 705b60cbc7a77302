package sim

import (
	"errors"
	"time"
)

// errUnavailable is the answer of somebody who is not there, or whose answer never came: the same question may be repeated.
var errUnavailable = errors.New("unavailable")

// errRefused is an answer that repeating does not change.
var errRefused = errors.New("refused")

// travel is how long a message is under way: most of the time short, sometimes so long that others overtake it.
func (s *Sim) travel() time.Duration {
	switch {
	case s.mishap(0.02):
		s.seen.count(SeenDelayed)
		return s.between(100*time.Millisecond, 4*time.Second)
	default:
		return s.between(100*time.Microsecond, 3*time.Millisecond)
	}
}

// cut says whether there is no way between the two.
func (s *Sim) cut(a, b *process) bool {
	return s.chaos.cutOff == a && s.now < s.chaos.cutUntil || s.chaos.cutOff == b && s.now < s.chaos.cutUntil
}

// lost says whether a message between the two is lost.
func (s *Sim) lost(from, to *process) bool {
	if s.cut(from, to) || s.mishap(0.004) {
		s.seen.count(SeenLost)
		return true
	}
	return false
}

// call asks another process. Serve answers, once, at any time; then hears the answer, or that there is none: after the
// timeout by the caller's clock, or when the other has crashed. A question may be delivered twice.
func call[T any](
	from, to *process, timeout time.Duration, serve func(reply func(T, error)), then func(T, error),
) {
	s := from.s
	var none T
	life, c := from.life, &caller{}
	finish := func(v T, err error) {
		if !c.done {
			c.done = true
			then(v, err)
		}
	}
	come := func(v T, err error) {
		s.queue.add(event{at: s.now + s.travel(), process: from, life: life, do: func() { finish(v, err) }})
	}
	c.broken = func() { come(none, errUnavailable) }
	from.after(timeout, func() { finish(none, errUnavailable) })
	ask := func() {
		s.queue.add(event{at: s.now + s.travel(), process: to, life: anyLife, down: c.broken, do: func() {
			to.serve(c)
			serve(func(v T, err error) {
				if !s.lost(to, from) {
					come(v, err)
				}
			})
		}})
	}
	if !s.lost(from, to) {
		ask()
	}
	if s.mishap(0.005) {
		s.seen.count(SeenDuplicated)
		s.queue.add(event{at: s.now + s.between(0, 15*time.Second), do: ask}) // it lay in the hands of somebody who slept
	}
}

// tell sends a message that nobody waits for.
func tell(from, to *process, life int, do func()) {
	s := from.s
	if !s.lost(from, to) {
		s.queue.add(event{at: s.now + s.travel(), process: to, life: life, do: do})
	}
}

// pace spaces the repeats of one call: the first comes at once, the later ones after growing pauses (steprunner/repeat).
type pace struct{ failures int }

func (p *pace) wait() time.Duration {
	pause := time.Duration(0)
	if p.failures > 0 {
		pause = min(50*time.Millisecond<<(p.failures-1), time.Second)
	}
	p.failures = min(p.failures+1, 10)
	return pause
}
