package machine

import "time"

// Effect is something the caller must do beside writing the run and its rows: in the same transaction, or, where the
// effect says so, owed by it.
type Effect interface{ effect() }

type (
	// StoreResult writes the row of core.pipeline_step_result: the step or shard finished, failed, or went to review.
	// Output, tokens and cost are those of the event.
	StoreResult struct {
		Ref
		Status StepStatus
		// Fence is that of the claim whose outcome it is; zero when the orchestrator decided by itself.
		Fence, Worker             ID
		Attempt, ClaimNo, AskBase int
		Reason                    Reason
		Detail                    string
		QueuedAt, ClaimedAt       time.Time
	}

	// Journal appends to core.run_event.
	Journal struct {
		Seq  int64
		Kind Kind
		Actor
		// Step is AllSteps for entries about the run as a whole.
		Ref
		Attempt int
		// Status is what the step (or, with AllSteps, the run) became; empty for a decision, whose consequences follow.
		Status string
		Reason Reason
		Detail string
	}

	// Dispatchable says that a row has become READY: when nothing waits, the caller applies Dispatched at once.
	Dispatchable struct {
		Ref
		Class Class
	}

	// Publish adds the step's id to the stream of its class, after the commit.
	Publish struct {
		Ref
		Class Class
	}

	// BeginEffect writes the row of core.effect, durably, before a claim of a step with an outside effect is granted.
	BeginEffect struct{ Ref }

	// CancelCalls aborts model calls in flight: of one step and generation, or with AllSteps of the whole run. Owed.
	CancelCalls struct{ Ref }

	// CloseSpend ends the run's spending at an epoch: no call can begin afterwards. Owed.
	CloseSpend struct{ Epoch int }

	// OpenSpend allows the run to spend again, at a newer epoch. Owed.
	OpenSpend struct{ Epoch int }

	// OweCallback owes the client a callback; Seq makes it unique within the run.
	OweCallback struct {
		Event string
		Seq   int64
	}

	// OpenReview writes the row of core.review.
	OpenReview struct {
		Ref
		Reason Reason
		Detail string
	}

	// CloseReview resolves one open review. The result that was stored with it becomes CANCELLED; another may follow.
	CloseReview struct {
		Ref
		By Kind
		Actor
	}

	// CloseReviews resolves all open reviews of a step and its shards, or with AllSteps of the run, except some. The
	// results that were stored with them become CANCELLED.
	CloseReviews struct {
		Drop
		By Kind
		Actor
	}

	// MarkCompensated marks the stored result of a step or shard whose effect was undone.
	MarkCompensated struct{ Ref }

	// ArchiveResults moves the results of a step and its shards to history: the step runs again in a new generation.
	ArchiveResults struct{ Step int }
)

func (StoreResult) effect()     {}
func (Journal) effect()         {}
func (Dispatchable) effect()    {}
func (Publish) effect()         {}
func (BeginEffect) effect()     {}
func (CancelCalls) effect()     {}
func (CloseSpend) effect()      {}
func (OpenSpend) effect()       {}
func (OweCallback) effect()     {}
func (OpenReview) effect()      {}
func (CloseReview) effect()     {}
func (CloseReviews) effect()    {}
func (MarkCompensated) effect() {}
func (ArchiveResults) effect()  {}

// The events that a client may be called back for.
const (
	CallbackDone        = "run.done"
	CallbackFailed      = "run.failed"
	CallbackCancelled   = "run.cancelled"
	CallbackNeedsReview = "run.needs_review"
)
