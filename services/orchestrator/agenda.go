package orchestrator

import (
	"container/heap"
	"sync"
	"time"

	"pawl.internal/services/orchestrator/store"
)

// agendaMost bounds the timers that are remembered; what does not fit is found by the next look.
const agendaMost = 20_000

// agenda remembers timers that run out soon until their time comes, and one goroutine waits for the first of them. Losing one
// only makes it late: a look finds what is overdue. It is safe for concurrent use.
type agenda struct {
	// earlier gets a value when a timer was added that comes before all others.
	earlier chan struct{}

	mu     sync.Mutex
	queue  timerQueue          // guarded by mu
	listed map[timerKey]*entry // guarded by mu; what the queue holds
}

// timerKey tells timers apart: a row whose timer was set anew has another one.
type timerKey struct {
	store.Ref
	at int64 // microseconds, as precise as PostgreSQL
}

func keyOf(t store.SoonTimer) timerKey { return timerKey{Ref: t.Ref, at: t.At.UnixMicro()} }

// entry is a timer on the agenda.
type entry struct {
	store.SoonTimer
	// noticed says that a group of this replica has set it: a look need not know of it.
	noticed bool
}

func newAgenda() *agenda {
	return &agenda{earlier: make(chan struct{}, 1), listed: map[timerKey]*entry{}}
}

// notice adds what a committed group has set.
func (a *agenda) notice(timers []store.SoonTimer) {
	if len(timers) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	first, before := a.first()
	for _, t := range timers {
		a.add(t, true)
	}
	if now, any := a.first(); any && (!before || now.Before(first)) {
		select {
		case a.earlier <- struct{}{}:
		default:
		}
	}
}

// replace puts what a look has found in the place of what the look before had.
func (a *agenda) replace(found []store.SoonTimer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	earlier := a.queue
	a.queue = make(timerQueue, 0, len(found))
	a.listed = make(map[timerKey]*entry, len(found))
	for _, e := range earlier {
		if e.noticed {
			a.add(e.SoonTimer, true)
		}
	}
	for _, t := range found {
		a.add(t, false)
	}
}

// add lists a timer, once. a.mu is held.
func (a *agenda) add(t store.SoonTimer, noticed bool) {
	key := keyOf(t)
	if _, known := a.listed[key]; known || len(a.queue) >= agendaMost {
		return
	}
	e := &entry{SoonTimer: t, noticed: noticed}
	a.listed[key] = e
	heap.Push(&a.queue, e)
}

// take removes the timers that have run out, and returns them in the order of their times.
func (a *agenda) take(now time.Time) []store.Timer {
	a.mu.Lock()
	defer a.mu.Unlock()
	var due []store.Timer
	for len(a.queue) > 0 && !a.queue[0].Fires.After(now) {
		e := heap.Pop(&a.queue).(*entry) //nolint:errcheck,forcetypeassert // the queue holds nothing else
		delete(a.listed, keyOf(e.SoonTimer))
		due = append(due, e.Timer)
	}
	return due
}

// next returns when the first timer runs out; false if there is none.
func (a *agenda) next() (time.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.first()
}

// first is next, for those who hold a.mu.
func (a *agenda) first() (time.Time, bool) {
	if len(a.queue) == 0 {
		return time.Time{}, false
	}
	return a.queue[0].Fires, true
}

// timerQueue is a heap by the times at which timers run out.
type timerQueue []*entry

func (q timerQueue) Len() int           { return len(q) }
func (q timerQueue) Less(i, j int) bool { return q[i].Fires.Before(q[j].Fires) }
func (q timerQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *timerQueue) Push(x any)        { *q = append(*q, x.(*entry)) } //nolint:errcheck,forcetypeassert // as above

func (q *timerQueue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}
