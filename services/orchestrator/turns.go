package orchestrator

import (
	"slices"

	"pawl.internal/services/orchestrator/store"
)

// turns deal out room to tenants by deficit round-robin: each turn gives a tenant as many steps as its weight is a multiple
// of the smallest weight among those that wait, and what is left of a fraction counts in its next turn. So the shares of
// tenants that have work are as their weights, all of the room is dealt as long as anybody has, and nobody waits longer than
// one lap. Who has no work saves nothing up.
type turns struct {
	// deficits are what tenants have left of turns before, in steps.
	deficits map[string]float64
	// turn is the tenant whose turn has begun and is not over; done is the one whose turn was over last.
	turn, done string
}

// deal takes up to room steps from the waiting tenants, which begin with the one whose turn it is and of which each has steps
// or more of them, and returns them with those who still wait, in turn. Dry says that it had to end: the tenant whose turn it
// is has more steps than are known.
func (t *turns) deal(ring []store.Waiting, room int) (dealt []store.Ref, left []store.Waiting, dry bool) {
	ring = slices.Clone(ring)
	for room > 0 && len(ring) > 0 {
		w := &ring[0]
		if len(w.Steps) == 0 {
			return dealt, ring, true
		}
		t.begin(w, ring)
		n := min(int(t.deficits[w.Tenant]), len(w.Steps), room)
		dealt, w.Steps = append(dealt, w.Steps[:n]...), w.Steps[n:]
		t.deficits[w.Tenant] -= float64(n)
		room -= n
		switch {
		case len(w.Steps) == 0 && !w.More:
			t.leave(w.Tenant)
			ring = ring[1:]
		case t.deficits[w.Tenant] < 1:
			t.end(w.Tenant)
			ring = append(ring[1:], ring[0])
		}
	}
	return dealt, ring, false
}

// begin gives the tenant what a turn gives, unless it is in the midst of one.
func (t *turns) begin(w *store.Waiting, ring []store.Waiting) {
	if t.turn == w.Tenant && t.deficits[w.Tenant] >= 1 {
		return
	}
	if t.deficits == nil {
		t.deficits = map[string]float64{}
	}
	least := w.Weight
	for i := range ring {
		least = min(least, ring[i].Weight)
	}
	t.turn = w.Tenant
	t.deficits[w.Tenant] += float64(w.Weight) / float64(least)
}

// end ends the tenant's turn; a fraction of a step is kept.
func (t *turns) end(tenant string) { t.turn, t.done = "", tenant }

// leave forgets a tenant that has no more steps.
func (t *turns) leave(tenant string) {
	delete(t.deficits, tenant)
	t.end(tenant)
}

// keep forgets the tenants that do not wait any more.
func (t *turns) keep(waiting []store.Waiting) {
	for tenant := range t.deficits {
		if !slices.ContainsFunc(waiting, func(w store.Waiting) bool { return w.Tenant == tenant }) {
			delete(t.deficits, tenant)
		}
	}
}
