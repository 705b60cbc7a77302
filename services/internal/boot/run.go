package boot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"buf.build/go/protovalidate"

	"pawl.internal/services/internal/rpc"
)

// stopListTime bounds what is done after the services have stopped.
const stopListTime = 30 * time.Second

// Entry is one row of the table of services. The table's order is the order of starting; stopping goes backwards.
type Entry struct {
	// Name is what `pawl serve` and Dial call the service: "step-runner".
	Name string
	// Needs are the services that it calls; each must run in the same process or have an address.
	Needs []string
	// Grace is how long the service may take to drain and answer its last calls; 0 means 20 s.
	Grace time.Duration
	// Build makes the service. What it opens it registers with p.OnStop.
	Build func(ctx context.Context, p *Process) (Service, error)
}

// Run builds and serves the named services until ctx ends or one of them fails; then it stops them: first they are not
// ready any more, then, the last started first, each one drains, answers its calls and ends; then the list of OnStop.
func Run(ctx context.Context, p *Process, table []Entry, names []string) error {
	entries, err := choose(table, names)
	if err != nil {
		return err
	}
	if err := p.join(entries); err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	units, err := p.start(ctx, entries, fail)
	if err == nil {
		p.Log.InfoContext(ctx, "serving", "services", names)
		p.health.watch(ctx, p.Clock)
		err = failure(ctx)
	}
	return errors.Join(err, p.stop(context.WithoutCancel(ctx), units))
}

// failure is the error of the unit that ended the process; nil when it was told to end.
func failure(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// choose returns the entries of the names, in the table's order.
func choose(table []Entry, names []string) ([]Entry, error) {
	var chosen []Entry
	known := make([]string, 0, len(table))
	for _, e := range table {
		known = append(known, e.Name)
		if slices.Contains(names, e.Name) {
			chosen = append(chosen, e)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no service %q: choose from %s", name, strings.Join(known, ", "))
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no service is named: choose from %s", strings.Join(known, ", "))
	}
	return chosen, nil
}

// join makes the services reachable for each other and checks that what they need is reachable.
func (p *Process) join(entries []Entry) error {
	p.OnStop("connections", time.Second, func(context.Context) error { return p.network.close() })
	for _, e := range entries {
		p.network.addLocal(e.Name)
	}
	var missing []error
	for _, e := range entries {
		for _, need := range e.Needs {
			if !p.network.reachable(need) {
				missing = append(missing, fmt.Errorf("%s needs %s: %w", e.Name, need, errNoAddress(need)))
			}
		}
	}
	return errors.Join(missing...)
}

// start builds and serves the entries one after the other; on an error it returns those that run already.
func (p *Process) start(ctx context.Context, entries []Entry, fail func(error)) ([]*unit, error) {
	validator, err := protovalidate.New()
	if err != nil {
		return nil, fmt.Errorf("request validation: %w", err)
	}
	options := rpc.ServerOptions{
		Clock: p.Clock, IDs: p.IDs, Metrics: rpc.NewMetrics(p.Metrics), Validator: validator,
	}
	if err := p.serveAdmin(ctx, fail); err != nil {
		return nil, err
	}
	var units []*unit
	for _, e := range entries {
		u, err := startUnit(ctx, p.forService(e.Name), e, options, fail)
		if err != nil {
			return units, err
		}
		units = append(units, u)
		p.health.addUnit(u)
	}
	p.health.serving()
	return units, nil
}

// stop ends the units, the last started first, and does what is on the stop list.
func (p *Process) stop(ctx context.Context, units []*unit) error {
	p.health.stopping()
	var errs []error
	if p.config.StopDelay > 0 {
		errs = append(errs, p.Clock.Sleep(ctx, p.config.StopDelay))
	}
	for _, u := range slices.Backward(units) {
		errs = append(errs, u.stop(ctx))
	}
	ctx, cancel := context.WithTimeout(ctx, stopListTime)
	defer cancel()
	return errors.Join(append(errs, p.stops.run(ctx))...)
}
