package store

import (
	"context"

	"pawl.internal/services/orchestrator/machine"
)

// findOversize finds the claims of steps that would be given more than a message holds. Only runs that have stored so much
// at all are looked at, so that the usual group asks nothing.
func (g *group) findOversize(ctx context.Context, events []*Event) error {
	var claims []*Event
	var wanted []Wanted
	for _, e := range events {
		if !e.Claim || e.refused != nil || g.runs[e.RunID].ledger.bytes <= InputsMax {
			continue
		}
		r := g.runs[e.RunID]
		if ref := r.ref(e.Ref); ref.Step < len(r.plan.Steps) {
			claims, wanted = append(claims, e), append(wanted, Wanted{Ref: e.Ref, Inputs: r.pipeline.InputsOf(ref.Key)})
		}
	}
	if len(claims) == 0 {
		return nil
	}
	sizes, err := measure(ctx, g.query, wanted)
	if err != nil {
		return err
	}
	g.oversize = map[*Event]bool{}
	for i, e := range claims {
		g.oversize[e] = sizes[i] > InputsMax
	}
	return nil
}

// inputTooLarge is what a claim becomes that cannot be granted: claim and failure in one, durably, since no other attempt
// would help.
func (g *group) inputTooLarge(r *run, claimed machine.Claimed) machine.Event {
	g.durable = true
	return machine.FailedPermanent{
		Attempt: machine.Attempt{Claim: machine.Claim{
			Ref: claimed.Ref, Fence: claimed.Fence, Worker: claimed.Worker, ClaimNo: r.row(claimed.Key).ClaimNo + 1,
		}},
		Reason: machine.ReasonInputTooLarge, Detail: "the documents that the step refers to are too large together",
	}
}
