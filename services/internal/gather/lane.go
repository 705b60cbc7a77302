package gather

import (
	"context"
	"sync"

	"pawl.internal/services/internal/fault"
)

// lane queues events and commits them in groups, one group at a time, from one goroutine: run.
type lane[E any] struct {
	cfg  Config[E]
	wake chan struct{} // holds a token when there may be something new to see in waiting or closed

	mu      sync.Mutex
	waiting []*ticket[E]  // guarded by mu; in order of arrival
	bytes   int           // guarded by mu; the weight of waiting
	room    chan struct{} // guarded by mu; closed when waiting shrinks; nil while nobody waits for that
	closed  bool          // guarded by mu
}

func newLane[E any](cfg Config[E]) *lane[E] {
	return &lane[E]{cfg: cfg, wake: make(chan struct{}, 1)}
}

// add queues the tickets together; while the lane is full it waits, until ctx ends.
func (l *lane[E]) add(ctx context.Context, tickets ...*ticket[E]) error {
	l.mu.Lock()
	for l.full() && !l.closed {
		if err := l.awaitRoom(ctx); err != nil {
			return err
		}
	}
	if l.closed {
		l.mu.Unlock()
		return errClosed()
	}
	l.waiting = append(l.waiting, tickets...)
	for _, t := range tickets {
		l.bytes += l.cfg.Size(t.event)
	}
	l.mu.Unlock()
	l.signal()
	return nil
}

// awaitRoom gives up mu until the lane has shrunk or closed. It returns with mu held, except when ctx ended: then with an
// error and mu free.
func (l *lane[E]) awaitRoom(ctx context.Context) error {
	if l.room == nil {
		l.room = make(chan struct{})
	}
	room := l.room
	l.mu.Unlock()
	select {
	case <-room:
		l.mu.Lock()
		return nil
	case <-ctx.Done():
		return fault.Of(ctx.Err())
	}
}

// full reports whether add must wait. The bound is soft: what is added together is let in together. l.mu is held.
func (l *lane[E]) full() bool {
	return len(l.waiting) >= backlogGroups*l.cfg.MaxEvents || l.bytes >= backlogGroups*l.cfg.MaxBytes
}

// close makes the lane refuse new events; run ends when it has committed what is queued.
func (l *lane[E]) close() {
	l.mu.Lock()
	l.closed = true
	l.makeRoom()
	l.mu.Unlock()
	l.signal()
}

func (l *lane[E]) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run commits group after group until the lane is closed and empty.
func (l *lane[E]) run(ctx context.Context) {
	for {
		group, closed := l.take()
		switch {
		case len(group) > 0:
			l.commit(ctx, l.cfg.Kind(group[0].event), group)
		case closed:
			return
		default:
			<-l.wake
		}
	}
}

// take removes the next group: the oldest event, and of those after it as many of the same kind as fit.
func (l *lane[E]) take() (group []*ticket[E], closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return nil, l.closed
	}
	rest := l.waiting[:0:0]
	kind, size, full := l.cfg.Kind(l.waiting[0].event), 0, false
	for _, t := range l.waiting {
		weight := l.cfg.Size(t.event)
		sameKind := l.cfg.Kind(t.event) == kind
		full = full || sameKind && len(group) > 0 && size+weight > l.cfg.MaxBytes || len(group) == l.cfg.MaxEvents
		if full || !sameKind {
			rest = append(rest, t)
			continue
		}
		group, size = append(group, t), size+weight
	}
	l.waiting = rest
	l.bytes -= size
	l.makeRoom()
	return group, false
}

// makeRoom lets those go on who wait for room. l.mu is held.
func (l *lane[E]) makeRoom() {
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
}

// commit commits the group and answers its callers; on the failure of one event it commits the halves apart.
func (l *lane[E]) commit(ctx context.Context, kind int, group []*ticket[E]) {
	err := l.cfg.Commit(ctx, kind, events(group))
	if err == nil || len(group) == 1 || failsWhole(ctx, err) {
		answer(group, err)
		return
	}
	half := len(group) / 2
	l.commit(ctx, kind, group[:half])
	l.commit(ctx, kind, group[half:])
}

func events[E any](group []*ticket[E]) []E {
	list := make([]E, len(group))
	for i, t := range group {
		list[i] = t.event
	}
	return list
}
