package sim

import (
	"pawl.internal/services/orchestrator/machine"
)

// outside is the world that effects change. It counts what begins.
type outside struct {
	s     *Sim
	begun map[effectKey][]*effectBegin
}

// effectKey is the idempotency key of an effect.
type effectKey struct{ run, step, shard, generation int }

// effectBegin is an effect that an attempt has begun.
type effectBegin struct {
	fence machine.ID
	// told says that the attempt's end is on record.
	told bool
}

func newOutside(s *Sim) *outside { return &outside{s: s, begun: map[effectKey][]*effectBegin{}} }

func keyOf(ref stepRef) effectKey { return effectKey{ref.run, ref.Step, ref.Shard, ref.Generation} }

// begin makes an effect.
func (o *outside) begin(h *hold) {
	o.s.note(h.r.name, "begins the effect of %v", h)
	o.s.oracle.effect(h, o.begun[keyOf(h.ref)])
	o.s.seen.count(SeenEffect)
	if h.pipeline().plan.IsUndo(h.ref.Step) {
		o.s.seen.count(SeenUndo)
	}
	o.begun[keyOf(h.ref)] = append(o.begun[keyOf(h.ref)], &effectBegin{fence: h.fence})
}

// ended notes that an attempt's end is on record.
func (o *outside) ended(ref stepRef, fence machine.ID) {
	for _, b := range o.begun[keyOf(ref)] {
		if b.fence == fence {
			b.told = true
		}
	}
}

// settled notes that a person has decided what became of the effects of a step, or of a run.
func (o *outside) settled(run int, ref machine.Ref) {
	for k, begun := range o.begun {
		if k.run != run || ref.Step != machine.AllSteps && (k.step != ref.Step || k.shard != ref.Shard || k.generation != ref.Generation) {
			continue
		}
		for _, b := range begun {
			b.told = true
		}
	}
}
