package sim

import (
	"time"

	"pawl.internal/services/orchestrator/machine"
)

// Guard names a line of defence that can be left out, to show that somebody notices.
type Guard string

// The guards. The first two are the real machine's.
const (
	GuardFence           Guard = "fence"             // an outcome is taken only under the fence that holds the step
	GuardClaimOnce       Guard = "claim_once"        // a step that is RUNNING is granted to nobody else
	GuardCallKey         Guard = "call_key"          // a request begins only if nobody has the call's key
	GuardOneFlight       Guard = "one_flight"        // equal questions share a flight
	GuardAmbiguousCount  Guard = "ambiguous_count"   // requests of unknown fate stop further ones, as far as the policy has not allowed them
	GuardPersist         Guard = "persist"           // what a request cost is stored, however long the store is away
	GuardGatewayLease    Guard = "gateway_lease"     // a gateway checks its lease before the first byte
	GuardGatewayJudge    Guard = "gateway_judge"     // requests of dead gateways become ambiguous
	GuardGatewayPatience Guard = "gateway_patience"  // ... only when the store has been there for a whole lease
	GuardCancelAtSend    Guard = "cancel_at_send"    // a flight that was cancelled sends nothing
	GuardWatch           Guard = "watch"             // calls that another gateway was told to abort are aborted
	GuardPurseClosed     Guard = "purse_closed"      // no request begins from a closed purse
	GuardSpendEpoch      Guard = "spend_epoch"       // a gate of an older epoch changes nothing
	GuardBudget          Guard = "budget"            // the worst case must fit into the budget
	GuardReserveReturned Guard = "reserve_returned"  // settling gives back what was reserved
	GuardSpendVersion    Guard = "spend_version"     // an older figure does not replace a newer one
	GuardTell            Guard = "tell"              // the orchestrator is told what runs have spent until it knows
	GuardRelay           Guard = "relay"             // gates and cancels are repeated until they are confirmed
	GuardGateFirst       Guard = "gate_before_abort" // calls are aborted only when the purse is closed
	GuardLateAbort       Guard = "late_abort"        // a late request to abort ends no call that began since the run was opened again
	GuardReaper          Guard = "reaper"            // steps of dead runners are taken from them
	GuardReaperPatience  Guard = "reaper_patience"   // ... only when PostgreSQL and the judge have been there for a whole lease
	GuardUnlisted        Guard = "unlisted"          // steps that their runner does not know of are taken from it
	GuardReadoption      Guard = "readoption"        // a heartbeat says what to stop, and gets claims back that were forgotten
	GuardFirstBeat       Guard = "first_heartbeat"   // a runner claims only under a lease
	GuardRunnerLease     Guard = "runner_lease"      // a runner begins no call and no effect under a lease that it cannot confirm
	GuardRelease         Guard = "release"           // a runner that leaves hands back what it holds
	GuardRepeatOutcome   Guard = "repeat_outcome"    // outcomes are repeated until they are stored
	GuardEffectDurable   Guard = "effect_durable"    // a claim of an outside effect is on disk before it is granted
	GuardOverdue         Guard = "overdue"           // entries that Redis has lost are added again
	GuardJanitor         Guard = "janitor"           // entries of dead consumers are cleared away
	GuardSearch          Guard = "search"            // entries whose delivery was lost are looked for
	GuardTimers          Guard = "timers"            // backoffs, waits and hard timeouts are looked for
	GuardDeadline        Guard = "deadline"          // deadlines are looked for
	GuardDispatcher      Guard = "dispatcher"        // READY steps that found no room are dispatched later
	GuardIdempotency     Guard = "idempotency_key"   // an idempotency key is taken once
)

// AllGuards lists the guards.
func AllGuards() []Guard {
	return []Guard{
		GuardFence, GuardClaimOnce, GuardCallKey, GuardOneFlight, GuardAmbiguousCount, GuardPersist, GuardGatewayLease,
		GuardGatewayJudge, GuardGatewayPatience, GuardCancelAtSend, GuardWatch, GuardPurseClosed, GuardSpendEpoch, GuardBudget,
		GuardReserveReturned, GuardSpendVersion, GuardTell, GuardRelay, GuardGateFirst, GuardLateAbort, GuardReaper, GuardReaperPatience,
		GuardUnlisted, GuardReadoption, GuardFirstBeat, GuardRunnerLease, GuardRelease, GuardRepeatOutcome, GuardEffectDurable,
		GuardOverdue, GuardJanitor, GuardSearch, GuardTimers, GuardDeadline, GuardDispatcher, GuardIdempotency,
	}
}

// guard says whether the guard stands.
func (s *Sim) guard(g Guard) bool { return s.broken != g }

// unguarded changes an event as if the machine did not check what it checks.
func (s *Sim) unguarded(ev machine.Event, row machine.Live) machine.Event {
	if s.guard(GuardFence) || row.Status != machine.StepRunning {
		return ev
	}
	held := func(a machine.Attempt) machine.Attempt {
		if a.Fence != row.Fence {
			a.Fence, a.ClaimNo = row.Fence, row.ClaimNo
		}
		return a
	}
	switch e := ev.(type) {
	case machine.Succeeded:
		return machine.Succeeded{Attempt: held(e.Attempt)}
	case machine.FailedTransient:
		e.Attempt = held(e.Attempt)
		return e
	case machine.FailedPermanent:
		e.Attempt = held(e.Attempt)
		return e
	default:
		return ev
	}
}

// ago is a time that long before now, by PostgreSQL's clock.
func (s *Sim) ago(t time.Time) time.Duration { return s.pgNow().Sub(t) }
