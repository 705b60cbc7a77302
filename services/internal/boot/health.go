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
	// probeTime bounds one look at all services or dependencies.
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
	results := askAll(ctx, readinessOf(units))
	for _, u := range units {
		ready := results[u.name] == nil
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
	if ended {
		results := make(map[string]error, len(units))
		for _, u := range units {
			results[u.name] = errStopping
		}
		return results
	}
	results := askAll(ctx, readinessOf(units))
	if !started {
		results["process"] = errStarting
	}
	return results
}

func readinessOf(units []*unit) []check {
	checks := make([]check, len(units))
	for i, u := range units {
		checks[i] = check{name: u.name, ask: u.service.Ready}
	}
	return checks
}

// dependencies asks for everything that the process depends on.
func (h *health) dependencies(ctx context.Context) map[string]error {
	h.mu.Lock()
	checks := h.checks
	h.mu.Unlock()
	return askAll(ctx, checks)
}

// askAll asks everything at the same time, so that one that hangs costs no more than probeTime, and gives each answer by
// name; of answers of the same name, the one that is an error.
func askAll(ctx context.Context, checks []check) map[string]error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	errs := make([]error, len(checks))
	var asking sync.WaitGroup
	for i, c := range checks {
		asking.Go(func() { errs[i] = c.ask(ctx) })
	}
	asking.Wait()
	results := make(map[string]error, len(checks))
	for i, c := range checks {
		if results[c.name] == nil {
			results[c.name] = errs[i]
		}
	}
	return results
}
