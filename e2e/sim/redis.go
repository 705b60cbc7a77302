package sim

import (
	"slices"
	"time"

	"pawl.internal/services/orchestrator/machine"
)

// redis is the server: one stream of steps with its group of consumers, and the permits. Whatever is in it can be lost.
type redis struct {
	s    *Sim
	away time.Duration

	nextID    int
	entries   []*entry // nobody has got yet, the oldest first
	pending   []*entry // delivered and not acknowledged
	consumers []*consumer
	readers   []*reader
	permits   []*permits
	// forgot is until when no permits are given out, after they were forgotten.
	forgot time.Duration
}

type entry struct {
	id       int
	ref      stepRef
	added    time.Duration
	taken    time.Duration
	consumer machine.ID
}

type consumer struct {
	name machine.ID
	seen time.Duration
}

// reader is a blocking read.
type reader struct {
	name  machine.ID
	count int
	reply func([]*entry, error)
	done  bool
}

// permits are those of a gateway.
type permits struct {
	holder machine.ID
	held   int
	until  time.Duration
}

func newRedis(s *Sim) *redis { return &redis{s: s} }

func (r *redis) up() bool { return r.s.now >= r.away }

// ask does something on the server and tells the process what came of it; an error when the server is away.
func (r *redis) ask(p *process, do func(), then func(error)) {
	s, life := r.s, p.life
	answer := func(err error) {
		s.queue.add(event{at: s.now + s.travel(), process: p, life: life, do: func() { then(err) }})
	}
	s.queue.add(event{at: s.now + s.travel(), do: func() {
		switch {
		case !r.up() || s.cut(p, nil):
			answer(errUnavailable)
		case s.mishap(0.004): // the answer is lost, and the command perhaps too
			if s.chance(0.5) {
				do()
			}
			answer(errUnavailable)
		default:
			do()
			answer(nil)
		}
	}})
}

// add is XADD.
func (r *redis) add(ref stepRef) {
	n := 1
	if r.s.mishap(0.01) {
		r.s.seen.count(SeenEntryDuplicated)
		n = 2
	}
	for range n {
		r.nextID++
		r.entries = append(r.entries, &entry{id: r.nextID, ref: ref, added: r.s.now})
	}
	r.serve()
}

// read is XREADGROUP: it answers when there is something, or after the block.
func (r *redis) read(p *process, name machine.ID, count int, block time.Duration, then func([]*entry, error)) {
	s, life := r.s, p.life
	rd := &reader{name: name, count: count}
	rd.reply = func(list []*entry, err error) {
		rd.done = true
		if s.mishap(0.01) && len(list) > 0 {
			s.seen.count(SeenDeliveryLost)
			list, err = nil, errUnavailable // delivered, and the answer lost
		}
		s.queue.add(event{at: s.now + s.travel(), process: p, life: life, do: func() { then(list, err) }})
	}
	s.queue.add(event{at: s.now + s.travel(), do: func() {
		if !r.up() || s.cut(p, nil) {
			rd.reply(nil, errUnavailable)
			return
		}
		if !p.up || p.life != life {
			return
		}
		r.see(name)
		r.readers = append(r.readers, rd)
		r.serve()
		if !rd.done {
			s.queue.add(event{at: s.now + block, do: func() {
				if !rd.done {
					r.readers = slices.DeleteFunc(r.readers, func(o *reader) bool { return o == rd })
					rd.reply(nil, nil)
				}
			}})
		}
	}})
}

func (r *redis) see(name machine.ID) {
	for _, c := range r.consumers {
		if c.name == name {
			c.seen = r.s.now
			return
		}
	}
	r.consumers = append(r.consumers, &consumer{name, r.s.now})
}

// serve gives entries to those who wait for some.
func (r *redis) serve() {
	for len(r.entries) > 0 && len(r.readers) > 0 {
		rd := r.readers[0]
		r.readers = r.readers[1:]
		n := min(rd.count, len(r.entries))
		list := slices.Clone(r.entries[:n])
		r.entries = slices.Clone(r.entries[n:])
		for _, e := range list {
			e.consumer, e.taken = rd.name, r.s.now
		}
		r.pending = append(r.pending, list...)
		r.see(rd.name)
		rd.reply(list, nil)
	}
}

// ack is XACK and XDEL.
func (r *redis) ack(ids []int) {
	r.pending = slices.DeleteFunc(r.pending, func(e *entry) bool { return slices.Contains(ids, e.id) })
}

// pendingOf is XPENDING of a consumer.
func (r *redis) pendingOf(name machine.ID) (list []*entry) {
	for _, e := range r.pending {
		if e.consumer == name {
			list = append(list, e)
		}
	}
	return list
}

// age is that of the oldest entry that nobody has got; 0 if there is none.
func (r *redis) age() time.Duration {
	if len(r.entries) == 0 {
		return 0
	}
	return r.s.now - r.entries[0].added
}

// flush is FLUSHALL.
func (r *redis) flush() {
	r.s.note("redis", "forgets everything: %d entries, %d pending", len(r.entries), len(r.pending))
	r.s.seen.count(SeenFlush)
	r.entries, r.pending, r.consumers, r.permits = nil, nil, nil, nil
	r.forgot = r.s.now + 2*time.Second
}

// stop makes it refuse everything for a while; those who wait for entries are cut off.
func (r *redis) stop(d time.Duration) {
	r.s.note("redis", "is away for %v", d)
	r.s.seen.count(SeenRedisAway)
	r.away = max(r.away, r.s.now+d)
	readers := r.readers
	r.readers = nil
	for _, rd := range readers {
		rd.reply(nil, errUnavailable)
	}
}

// lose drops an entry.
func (r *redis) lose() {
	if len(r.entries) > 0 {
		r.s.seen.count(SeenEntryLost)
		r.s.note("redis", "loses an entry")
		i := r.s.below(len(r.entries))
		r.entries = slices.Delete(slices.Clone(r.entries), i, i+1)
	}
}

// share is the script of the permits: it keeps what a holder has, and gives it more as far as there are any.
func (r *redis) share(holder machine.ID, keep, want, limit int) int {
	var mine *permits
	others := 0
	for _, p := range r.permits {
		switch {
		case p.holder == holder:
			mine = p
		case p.until > r.s.now:
			others += p.held
		}
	}
	if mine == nil {
		mine = &permits{holder: holder}
		r.permits = append(r.permits, mine)
	}
	mine.until = r.s.now + permitTTL
	mine.held = keep
	if r.s.now >= r.forgot {
		mine.held = max(keep, min(want, limit-others))
	}
	return mine.held
}
