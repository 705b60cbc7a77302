package sim

// Promise is what Pawl promises, in words.
type Promise string

// The promises that a simulation checks.
const (
	PromiseMachine    Promise = "a stored run always makes sense (machine.Check)"
	PromiseFinished   Promise = "I01: a finished step never runs again"
	PromisePaidOnce   Promise = "I02: a token is never bought twice, unless the policy for calls of unknown fate allows it"
	PromiseRecovers   Promise = "I03, I04: what was lost on the way is noticed, and work resumes by itself"
	PromiseOneRun     Promise = "I05: one submit, one run"
	PromiseStale      Promise = "I06: stale workers change nothing"
	PromiseLease      Promise = "I06: nothing begins under a lease that cannot be confirmed"
	PromiseJudge      Promise = "nobody is expired by an outage of the judge"
	PromiseAttempt    Promise = "a step that is handed back unexecuted has its attempt back"
	PromiseDue        Promise = "a timer acts only when its time has come by PostgreSQL's clock"
	PromiseEnds       Promise = "I08: every run ends, or waits for a person at a named step"
	PromiseDeadline   Promise = "I08: a run past its deadline is ended within two seconds"
	PromiseOneEnd     Promise = "a run ends once, until it is opened again"
	PromiseMoney      Promise = "I09: what a run has cost is the sum of its calls, and within its budget"
	PromiseCancel     Promise = "I12: cancel means stop"
	PromiseEffect     Promise = "I14: no attempt at an outside effect is forgotten"
	PromiseNothing    Promise = "nothing is left behind: slots, permits, entries, leases"
	PromiseSameTrace  Promise = "the same seed does the same"
	PromiseGoodOrder  Promise = "a runner that leaves in good order leaves nothing behind"
	PromiseNeverTwice Promise = "an outside effect is not begun by two workers at once"
)
