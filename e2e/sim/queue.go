package sim

import "time"

// anyLife marks events that concern a process in whatever life it is.
const anyLife = -1

// event is something that is going to happen.
type event struct {
	at  time.Duration
	seq uint64
	// process, if set, is the one that acts: it must be up, and in the same life; while it sleeps, the event waits.
	process *process
	life    int
	do      func()
	// down, if set, happens instead when the process is down.
	down func()
}

// run carries the event out.
func (e *event) run(s *Sim) {
	p := e.process
	switch {
	case p == nil:
		e.do()
		return
	case !p.up || e.life != anyLife && e.life != p.life:
		if e.down != nil {
			e.down()
		}
		return
	case s.now < p.asleep:
		e.at = p.asleep
		s.queue.push(*e)
		return
	}
	s.mix(uint64(s.now), uint64(p.no)) //nolint:gosec // never negative
	e.do()
}

// queue is a heap of events: by time, and then in the order in which they were made.
type queue struct {
	heap []event
	seq  uint64
}

func (q *queue) add(e event) {
	q.seq++
	e.seq = q.seq
	q.push(e)
}

func (q *queue) push(e event) {
	q.heap = append(q.heap, e)
	i := len(q.heap) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !q.less(i, parent) {
			break
		}
		q.heap[i], q.heap[parent] = q.heap[parent], q.heap[i]
		i = parent
	}
}

func (q *queue) pop() (event, bool) {
	if len(q.heap) == 0 {
		return event{}, false
	}
	top, last := q.heap[0], len(q.heap)-1
	q.heap[0], q.heap[last] = q.heap[last], event{}
	q.heap = q.heap[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if q.less(child, least) {
				least = child
			}
		}
		if least == i {
			return top, true
		}
		q.heap[i], q.heap[least] = q.heap[least], q.heap[i]
		i = least
	}
}

func (q *queue) less(i, j int) bool {
	a, b := &q.heap[i], &q.heap[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}
