package store

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/orchestrator/machine"
)

// Whole is the shard number of a step itself.
const Whole = machine.Whole

// CurrentGeneration stands for the generation that the step is in when the event is carried out.
const CurrentGeneration = -1

// ErrNoRun says that there is no such run, or that it is another tenant's.
var ErrNoRun = errors.New("there is no such run")

// Ref names a step or shard of a run in one generation, as streams and runners do. Without a step it is the run itself.
type Ref struct {
	RunID      uuid.UUID
	Step       string
	Shard      int
	Generation int
}

// OfRun names the run itself.
func OfRun(id uuid.UUID) Ref { return Ref{RunID: id, Shard: Whole} }

// Event is something that happened to a run or to one of its steps, and, after Submit, what came of it. It is used once.
type Event struct {
	Ref
	// Make returns the machine's event for the step that Ref names, at the time of the group, which is PostgreSQL's. For
	// events of a run the step is machine.AllSteps. Nil for events that only bring Spend.
	Make func(ref machine.Ref, now time.Time) machine.Event
	// Tenant, if set, must be the run's: another tenant's run does not exist for it.
	Tenant string
	// Claim marks claims: their groups commit asynchronously, since a lost claim only means claiming again.
	Claim bool
	// Dispatch marks the events by which the dispatcher asks for a step: caps may refuse them, with ErrCapped.
	Dispatch bool
	// Report is what an outcome brings beside the machine's event; nil for other events.
	Report *Report
	// Decision is set for what a person has decided.
	Decision *Decision
	// Spend is the newest known figure of what the run has spent; nil if nothing is known.
	Spend *Spend

	// Answer is the machine's. It and Grant may be read when Submit has returned no error for the event.
	Answer machine.Answer
	// Grant is what the holder of a granted claim must know.
	Grant *Grant

	// refused is why the event has no effect: ErrNoRun, or one of the machine's refusals.
	refused error
}

// Report is what an attempt brings beside its kind of end.
type Report struct {
	// Worker is the runner's instance.
	Worker uuid.UUID
	// Output is that of a step that succeeded or goes to review.
	Output Document
	// Items are those of a fan-out, a shard each.
	Items []Document
	// InputTokens, OutputTokens and Cost are those of the attempt.
	InputTokens, OutputTokens int64
	Cost                      money.Pico
	// PromptVersion and InputDigest say what was asked.
	PromptVersion string
	InputDigest   []byte
	// StartedAt is when execution began, on the runner's clock; zero if unknown.
	StartedAt time.Time
}

// Spend is what a run has spent, as the gateway's version of that figure.
type Spend struct {
	Spent   money.Pico
	Version int64
}

// Grant describes a claim that was granted, and its run.
type Grant struct {
	Tenant   string
	Pipeline *Pipeline
	Class    machine.Class
	EntityID string
	// Labels is a JSON object of texts.
	Labels []byte
	// Budget is nil without a limit.
	Budget     *money.Pico
	SpendEpoch int
	// Batch is the run's, with its budget; zero for none, and nil without a limit.
	Batch       uuid.UUID
	BatchBudget *money.Pico
	// DeadlineIn is the time left until the run's deadline.
	DeadlineIn time.Duration
	// Row is the step's row as claimed; Step is its index in the pipeline.
	Row machine.Live
	// Bytes bounds the size of the documents that the step can ask for.
	Bytes int64
}

// The kinds of groups.
const (
	kindDurable = iota
	kindClaim
)

// kindName is the label of failpoints in groups.
func kindName(kind int) string {
	if kind == kindClaim {
		return "claim"
	}
	return "durable"
}

// soloShards is the size of a fan-out from which on its expansion is a group of its own.
const soloShards = 200

// eventWeight is what an event weighs without its documents.
const eventWeight = 512

func (e *Event) kind() int {
	if e.Claim {
		return kindClaim
	}
	return kindDurable
}

// lane spreads runs evenly: the low half of a UUID v7 is random.
func (e *Event) lane() uint64 { return binary.BigEndian.Uint64(e.RunID[8:]) }

func (e *Event) weight() int {
	if e.Report == nil {
		return eventWeight
	}
	if len(e.Report.Items) > soloShards {
		return maxGroupBytes
	}
	weight := eventWeight + e.Report.Output.stored()
	for _, item := range e.Report.Items {
		weight += item.stored()
	}
	return weight
}

// reset forgets what an earlier, failed commit has left.
func (e *Event) reset() { e.Answer, e.Grant, e.refused = "", nil, nil }

// AnyGeneration returns the ref without its generation: the key of the step's row.
func (r Ref) AnyGeneration() Ref {
	r.Generation = 0
	return r
}
