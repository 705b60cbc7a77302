package simulated

import (
	"crypto/sha256"
	"slices"
	"strconv"
	"sync"
)

// plan is what happens to one request.
type plan struct {
	outcome *Fault          // nil: it is answered
	latency *Fault          // nil: as configured
	drip    *Fault          // nil: at once
	usage   *Fault          // nil: as it is
	release <-chan struct{} // closed when a hold is deleted; nil if nothing holds it
}

// add puts a fault into the plan, unless one of its sort is there already.
func (p *plan) add(f *Fault) {
	slot := &p.outcome
	switch f.Kind {
	case kindLatency:
		slot = &p.latency
	case kindDrip:
		slot = &p.drip
	case kindUsage:
		slot = &p.usage
	}
	if *slot == nil {
		*slot = f
	}
}

// maxTries bounds the conversations that are remembered between their tries.
const maxTries = 100_000

// faults keeps those that were ordered, and how far scripted conversations are.
type faults struct {
	mu      sync.Mutex
	lastID  int
	ordered []*order
	tries   map[[sha256.Size]byte]int
}

// order is a fault that was asked for through the admin API.
type order struct {
	fault   *Fault
	left    int // requests it will still hit; -1: all
	deleted chan struct{}
}

// PendingFault is a fault that was asked for and is not used up or deleted.
type PendingFault struct {
	Fault
	// Left is how many requests it will still hit; -1 means all. A hold stays at 0 while it holds what it hit.
	Left int `json:"left"`
}

func newFaults() *faults { return &faults{tries: map[[sha256.Size]byte]int{}} }

// inject orders a fault and returns its id.
func (f *faults) inject(fault Fault) (string, error) {
	if err := fault.parse(); err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastID++
	fault.ID = strconv.Itoa(f.lastID)
	o := &order{fault: &fault, left: fault.Count, deleted: make(chan struct{})}
	if fault.Count == 0 {
		o.left = -1
	}
	f.ordered = append(f.ordered, o)
	return fault.ID, nil
}

// list returns the faults that are ordered.
func (f *faults) list() []PendingFault {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]PendingFault, len(f.ordered))
	for i, o := range f.ordered {
		list[i] = PendingFault{*o.fault, o.left}
	}
	return list
}

// remove deletes the fault with this id, or all if it is empty, and lets go what they hold. It reports whether there was any.
func (f *faults) remove(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.ordered)
	f.ordered = slices.DeleteFunc(f.ordered, func(o *order) bool {
		if id != "" && o.fault.ID != id {
			return false
		}
		close(o.deleted)
		return true
	})
	return len(f.ordered) < before
}

// plan decides what happens to a request: ordered faults go before those of the model's name.
func (f *faults) plan(c *call) plan {
	f.mu.Lock()
	defer f.mu.Unlock()
	var p plan
	for _, o := range f.ordered {
		if o.left != 0 && c.matches(o.fault) {
			f.take(o, &p)
		}
	}
	// A used-up hold stays, so that it can be deleted.
	f.ordered = slices.DeleteFunc(f.ordered, func(o *order) bool { return o.left == 0 && o.fault.Kind != kindHold })
	if len(c.script.faults) > 0 {
		f.follow(c, &p)
	}
	return p
}

// take uses one hit of an order, if the plan has room for its sort of fault. f.mu is held.
func (f *faults) take(o *order, p *plan) {
	had := *p
	p.add(o.fault)
	if *p == had {
		return
	}
	if o.left > 0 {
		o.left--
	}
	if o.fault.Kind == kindHold {
		p.release = o.deleted
	}
}

// scripted is plan for a request to which only the faults of the model's name apply.
func (f *faults) scripted(c *call) plan {
	f.mu.Lock()
	defer f.mu.Unlock()
	var p plan
	if len(c.script.faults) > 0 {
		f.follow(c, &p)
	}
	return p
}

// follow goes one try further in a conversation's script. f.mu is held.
func (f *faults) follow(c *call, p *plan) {
	key := c.conversation()
	try := f.tries[key]
	c.script.plan(try, p)
	switch {
	case try < c.script.counted:
		if len(f.tries) >= maxTries {
			clear(f.tries)
		}
		f.tries[key] = try + 1
	case p.outcome == nil:
		delete(f.tries, key)
	}
}

// matches reports whether a fault is meant for this request.
func (c *call) matches(f *Fault) bool {
	return (f.Model == "" || f.Model == c.script.model) && (f.Format == "" || f.Format == c.form.name()) &&
		(f.Contains == "" || c.says(f.Contains))
}
