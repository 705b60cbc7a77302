package sim

// Seen is a kind of thing that happens in simulations.
type Seen int

// What happens. A kind that never happens in thousands of seeds is a failure: nothing would be shown about it.
const (
	SeenCrash Seen = iota
	SeenCrashAtPoint
	SeenPause
	SeenTerminate
	SeenCutOff
	SeenPowerCut
	SeenStrayClaim
	SeenLost
	SeenDuplicated
	SeenDelayed
	SeenPostgresAway
	SeenPostgresCrash
	SeenCommitLost
	SeenUnknownCommit
	SeenRedisAway
	SeenFlush
	SeenEntryLost
	SeenEntryDuplicated
	SeenDeliveryLost
	SeenDeliveryFound
	SeenEntryCleared
	SeenPublishFailed
	SeenPermitsDegraded
	SeenGroupSplit
	SeenSubmitRepeated
	SeenPoison
	SeenHang
	SeenSoftTimeout
	SeenReleased
	SeenReadopted
	SeenStopped
	SeenUnlisted
	SeenOutcomeRefused
	SeenOutcomeRepeated
	SeenQuestionRepeated
	SeenJoined
	SeenReplayed
	SeenRepair
	SeenFallback
	SeenRequest
	SeenRateLimited
	SeenProviderError
	SeenProviderRefused
	SeenProviderHangs
	SeenProviderDrops
	SeenBadAnswer
	SeenUnsure
	SeenOrphan
	SeenLateAnswer
	SeenNotSent
	SeenPersistRepeated
	SeenOverBudget
	SeenPurseClosed
	SeenAborted
	SeenConnectionClosed
	SeenEffect
	SeenEffectUnsure
	SeenUndo
	SeenCancelled
	SeenReopened
	SeenRetried
	SeenRerun
	SeenClosed
	SeenCorrected
	SeenHeld
	SeenResumed
	SeenLeaseExpired
	SeenHardTimeout
	SeenDeadline
	SeenOverdue
	SeenWorkerLost
	SeenRunDone
	SeenRunFailed
	SeenRunCancelled
	SeenRunInReview
	seenKinds
)

// Coverage counts what has happened.
type Coverage [seenKinds]int

func (c *Coverage) count(k Seen)      { c[k]++ }
func (c *Coverage) add(k Seen, n int) { c[k] += n }

// Sum adds what happened elsewhere.
func (c *Coverage) Sum(other *Coverage) {
	for k, n := range other {
		c[k] += n
	}
}

// Never lists what has not happened.
func (c *Coverage) Never() []Seen {
	var never []Seen
	for k, n := range c {
		if n == 0 {
			never = append(never, Seen(k))
		}
	}
	return never
}

// String names the kind.
func (k Seen) String() string { return seenNames()[k] }

func seenNames() [seenKinds]string {
	return [seenKinds]string{
		SeenCrash: "processes crashed", SeenCrashAtPoint: "... between two actions", SeenPause: "processes stopped for a while",
		SeenTerminate: "processes asked to leave", SeenCutOff: "processes cut off", SeenPowerCut: "power cuts", SeenStrayClaim: "claims that came once more, late", SeenLost: "messages lost",
		SeenDuplicated: "messages delivered twice", SeenDelayed: "messages late", SeenPostgresAway: "PostgreSQL away",
		SeenPostgresCrash: "PostgreSQL crashed", SeenCommitLost: "asynchronous commits lost", SeenUnknownCommit: "commits of unknown fate",
		SeenRedisAway: "Redis away", SeenFlush: "Redis flushed", SeenEntryLost: "stream entries lost",
		SeenEntryDuplicated: "stream entries doubled", SeenDeliveryLost: "deliveries lost", SeenDeliveryFound: "lost deliveries found again",
		SeenEntryCleared: "entries of dead consumers cleared", SeenPublishFailed: "publishes failed",
		SeenPermitsDegraded: "permits without Redis", SeenGroupSplit: "groups split", SeenSubmitRepeated: "submits answered with an earlier run",
		SeenPoison: "workers killed by their step", SeenHang: "steps that ignore their end", SeenSoftTimeout: "soft timeouts",
		SeenReleased: "steps handed back", SeenReadopted: "claims confirmed again or re-adopted", SeenStopped: "holds told to stop",
		SeenUnlisted: "claims whose answer was lost", SeenOutcomeRefused: "outcomes refused", SeenOutcomeRepeated: "outcomes repeated",
		SeenQuestionRepeated: "questions repeated", SeenJoined: "questions joined", SeenReplayed: "answers replayed", SeenRepair: "repairs asked for",
		SeenFallback: "second targets asked", SeenRequest: "requests at the provider", SeenRateLimited: "answers 429",
		SeenProviderError: "answers 5xx", SeenProviderRefused: "permanent refusals", SeenProviderHangs: "provider hangs",
		SeenProviderDrops: "connections dropped after charging", SeenBadAnswer: "answers at fault", SeenUnsure: "requests of unknown fate",
		SeenOrphan: "orphans judged", SeenLateAnswer: "late answers", SeenNotSent: "recorded and not sent",
		SeenPersistRepeated: "answers kept until they could be stored", SeenOverBudget: "over budget", SeenPurseClosed: "purse found closed",
		SeenAborted: "flights aborted", SeenConnectionClosed: "provider connections closed", SeenEffect: "outside effects",
		SeenEffectUnsure: "effects of unknown fate", SeenUndo: "undos", SeenCancelled: "runs cancelled by a person",
		SeenReopened: "runs opened again", SeenRetried: "reviews retried", SeenRerun: "reruns", SeenClosed: "runs closed by a person",
		SeenCorrected: "reviews corrected", SeenHeld: "runs paused", SeenResumed: "runs resumed", SeenLeaseExpired: "leases expired",
		SeenHardTimeout: "hard timeouts", SeenDeadline: "deadlines passed", SeenOverdue: "entries added again",
		SeenWorkerLost: "steps failed for losing workers", SeenRunDone: "runs done", SeenRunFailed: "runs failed",
		SeenRunCancelled: "runs cancelled", SeenRunInReview: "runs waiting for a person",
	}
}
