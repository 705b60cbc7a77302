package permit

import "slices"

// waiter is a call in line. Its channel is closed when it has a permit or is refused.
type waiter struct {
	need  Need
	draws amounts
	// decided is closed when it is known how the waiting ended.
	decided chan struct{}
	refusal *Refusal // set before decided is closed
	granted bool     // guarded by the agent's mu
	inLine  bool     // guarded by the agent's mu
}

// line is where the calls of one class wait: one behind the other within a tenant, and the tenants in turns.
type line struct {
	// queues are those of the tenants that have calls in line, in the order of their turns.
	queues   []*queue
	byTenant map[string]*queue
	size     int
	draws    amounts
}

// queue holds the calls of one tenant.
type queue struct {
	tenant  string
	waiters []*waiter
	draws   amounts
}

func (l *line) push(w *waiter) {
	q := l.byTenant[w.need.Tenant]
	if q == nil {
		q = &queue{tenant: w.need.Tenant}
		if l.byTenant == nil {
			l.byTenant = map[string]*queue{}
		}
		l.byTenant[q.tenant] = q
		l.queues = append(l.queues, q)
	}
	q.waiters = append(q.waiters, w)
	l.count(q, w, 1)
	w.inLine = true
}

// count keeps the sums.
func (l *line) count(q *queue, w *waiter, sign int) {
	l.size += sign
	l.draws = l.draws.plus(w.draws.times(float64(sign)))
	q.draws = q.draws.plus(w.draws.times(float64(sign)))
}

// first returns the call whose turn it is; nil if there is none.
func (l *line) first() *waiter {
	if l.size == 0 {
		return nil
	}
	return l.queues[0].waiters[0]
}

// take removes a call that has got its permit; if it is the one whose turn it was, the next tenant's turn comes.
func (l *line) take(w *waiter) {
	q := l.byTenant[w.need.Tenant]
	turn := l.queues[0] == q && q.waiters[0] == w
	l.remove(w)
	if turn && len(q.waiters) > 0 {
		l.queues = append(l.queues[1:], q)
	}
}

// remove takes a call out of the line.
func (l *line) remove(w *waiter) {
	q := l.byTenant[w.need.Tenant]
	if q.waiters[0] == w {
		q.waiters[0] = nil
		q.waiters = q.waiters[1:]
	} else {
		i := slices.Index(q.waiters, w)
		q.waiters = slices.Delete(q.waiters, i, i+1)
	}
	l.count(q, w, -1)
	w.inLine = false
	if len(q.waiters) == 0 {
		delete(l.byTenant, q.tenant)
		l.queues = slices.DeleteFunc(l.queues, func(other *queue) bool { return other == q })
	}
}

// next returns the first n calls in the order in which they will be served.
func (l *line) next(n int) []*waiter {
	n = min(n, l.size)
	list := make([]*waiter, 0, n)
	for round := 0; len(list) < n; round++ {
		for _, q := range l.queues {
			if round < len(q.waiters) && len(list) < n {
				list = append(list, q.waiters[round])
			}
		}
	}
	return list
}

// all returns every call in line.
func (l *line) all() []*waiter { return l.next(l.size) }
