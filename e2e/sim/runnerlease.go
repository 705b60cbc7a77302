package sim

import "time"

// runnerLease is the runner's right to hold steps (steprunner/heartbeat.go).
type runnerLease struct {
	known  bool
	sentAt time.Duration
	// waiting go on when the lease is confirmed.
	waiting []func()
}

// beat sends a heartbeat, again until one is confirmed, and the next a quarter of a lease later.
func (r *runner) beat(p *pace) {
	sent := r.clock()
	timeout := 2 * time.Second
	if r.lease.known {
		timeout = lease / 5
	}
	holds := make([]holdInfo, len(r.holds))
	for i, h := range r.holds {
		holds[i] = h.info()
	}
	o, self := r.s.anOrchestrator(), r.instance
	call(r.process, o.process, timeout,
		func(reply func([]stop, error)) { o.heartbeat(self, r.size, holds, reply) },
		func(stops []stop, err error) {
			if err != nil {
				r.after(p.wait(), func() { r.beat(p) })
				return
			}
			r.obey(stops)
			r.confirm(sent)
			r.after(max(lease/4-(r.clock()-sent), 0), func() { r.beat(&pace{}) })
		})
}

func (r *runner) confirm(sent time.Duration) {
	r.lease.known, r.lease.sentAt = true, sent
	waiting := r.lease.waiting
	r.lease.waiting = nil
	for _, goOn := range waiting {
		r.after(0, func() { r.awaitLease(true, goOn) })
	}
}

// valid reports whether the runner may claim steps and begin calls: the rest of the lease is the margin for what begins now.
func (r *runner) valid() bool {
	return r.lease.known && r.clock()-r.lease.sentAt <= lease/5*4
}

// awaitLease goes on when the lease is valid; at once if nobody asks.
func (r *runner) awaitLease(check bool, goOn func()) {
	if !check || r.valid() {
		goOn()
		return
	}
	r.lease.waiting = append(r.lease.waiting, goOn)
}

// obey stops what the orchestrator wants stopped. Its outcome would be refused, so there is none.
func (r *runner) obey(stops []stop) {
	for _, st := range stops {
		for _, h := range r.holds {
			if h.fence == st.fence {
				r.s.note(r.name, "must let go of %v: %s", h, st.why)
				r.drop(h)
				break
			}
		}
	}
}

// stopwatch bounds the work of an attempt, and stands still while it waits for what is not its own (step/stopwatch.go).
type stopwatch struct {
	h       *hold
	left    time.Duration
	since   time.Duration
	running bool
	turn    int
	// permit is since when a permit is awaited, and waited how long that took in all.
	permit time.Duration
	waited time.Duration
	rang   bool
}

func (w *stopwatch) resume() {
	if w.running {
		return
	}
	r := w.h.r
	w.running, w.since = true, r.clock()
	w.turn++
	turn := w.turn
	r.after(w.left, func() {
		if w.running && turn == w.turn && !w.h.over {
			w.rang = true
			r.s.seen.count(SeenSoftTimeout)
			w.h.complete(w.h.outcome(outTransient, "step_timeout"))
		}
	})
}

func (w *stopwatch) pause() {
	if w.running {
		w.running = false
		w.left = max(w.left-(w.h.r.clock()-w.since), 0)
	}
}

// awaiting notes that a permit is awaited, or not any more.
func (w *stopwatch) awaiting(yes bool) {
	now := w.h.r.clock()
	switch {
	case yes && w.permit == 0:
		w.permit = now
		w.pause()
	case !yes && w.permit != 0:
		w.waited += now - w.permit
		w.permit = 0
		w.resume()
	}
}
