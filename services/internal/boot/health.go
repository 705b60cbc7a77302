package boot

import (
	"context"
	"errors"
	"sync"
	"time"

	"pawl.internal/services/internal/clock"
)

const (
	// probeEvery is how often readiness is looked at; probeSoon while the process is not ready yet.
	probeEvery = 2 * time.Second
	probeSoon  = 100 * time.Millisecond
	// probeTime bounds one look at one service or dependency.
	probeTime = 2 * time.Second
)

var (
	errStarting = errors.New("starting")
	errStopping = errors.New("stopping")
)

// health knows whether the process's services can serve and whether its dependencies are there.
type health struct {
	mu      sync.Mutex
	units   []*unit // guarded by mu
	checks  []check // guarded by mu
	started bool    // guarded by mu; all services are being served
	ended   bool    // guarded by mu; the process is stopping
}

type check struct {
	name string
	ask  func(context.Context) error
}

func (h *health) addUnit(u *unit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.units = append(h.units, u)
}

func (h *health) addCheck(name string, ask func(context.Context) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks = append(h.checks, check{name: name, ask: ask})
}

// serving says that there are no further services to come; before that the process is not ready.
func (h *health) serving() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started = true
}

// stopping makes the process not ready, for good.
func (h *health) stopping() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	for _, u := range h.units {
		u.setServing(false)
	}
}

// watch keeps gRPC's health protocol up to date until ctx ends.
func (h *health) watch(ctx context.Context, clk clock.Clock) {
	for {
		wait := probeEvery
		if !h.refresh(ctx) {
			wait = probeSoon
		}
		if clk.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// refresh asks every unit and reports whether all are ready.
func (h *health) refresh(ctx context.Context) bool {
	h.mu.Lock()
	units := h.units
	h.mu.Unlock()
	all := true
	for _, u := range units {
		ready := ask(ctx, u.service.Ready) == nil
		all = all && ready
		h.publish(u, ready)
	}
	return all
}

func (h *health) publish(u *unit, ready bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		u.setServing(ready)
	}
}

// readiness asks every service whether it can serve.
func (h *health) readiness(ctx context.Context) map[string]error {
	h.mu.Lock()
	units, started, ended := h.units, h.started, h.ended
	h.mu.Unlock()
	results := map[string]error{}
	if !started && !ended {
		results["process"] = errStarting
	}
	for _, u := range units {
		if ended {
			results[u.name] = errStopping
			continue
		}
		results[u.name] = ask(ctx, u.service.Ready)
	}
	return results
}

// dependencies asks for everything that the process depends on.
func (h *health) dependencies(ctx context.Context) map[string]error {
	h.mu.Lock()
	checks := h.checks
	h.mu.Unlock()
	results := map[string]error{}
	for _, c := range checks {
		results[c.name] = ask(ctx, c.ask)
	}
	return results
}

func ask(ctx context.Context, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	return fn(ctx)
}
