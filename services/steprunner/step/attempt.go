// Package step is what the kinds of steps share: what an attempt is given, and what it tells of itself.
//
// A kind lives in a package of its own beside this one (llm, transform, validate) and has one method, Execute. It knows
// nothing of streams, claims and leases, and decides nothing about retries: it returns an output, or says why there is
// none.
package step

import (
	"context"
	"encoding/json"
	"time"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/expr"
	"pawl.internal/services/internal/pipeline"
)

// Kind executes the steps of one kind. It is safe for concurrent use.
type Kind interface {
	// Execute carries out an attempt and returns the output as JSON, or a *Failure, or a *Parked. Any other error is a
	// fault of the program, except that ctx's error is returned when ctx has ended.
	Execute(ctx context.Context, a *Attempt) (json.RawMessage, error)
}

// Attempt is one execution of a step or of a shard.
type Attempt struct {
	Ref        *systemv1.StepRef
	Assignment *systemv1.Assignment
	// Step is the step as it was compiled.
	Step *pipeline.Step
	// Scope holds the data that the step's expressions see.
	Scope *expr.Scope
	// Deadline is when the run ends, by the runner's clock.
	Deadline time.Time
	// Stopwatch bounds the work; the kind stops it while it waits for something that is not its own.
	Stopwatch *Stopwatch
	// Confirm waits until the runner's lease is sure enough to begin a call or an outside effect. Its error is that ctx
	// has ended.
	Confirm func(ctx context.Context) error
	// Report is filled in on the way, so that it is complete also when the attempt fails.
	Report *Report
}

// Report is what an attempt tells of itself beside its result.
type Report struct {
	// Usage sums up the model calls; nil without any.
	Usage *systemv1.Usage
	// AsksUsed is how many questions got an answer that another attempt must not get again.
	AsksUsed int
	// PromptVersion is the digest of the prompt's template.
	PromptVersion string
	// InputDigest is the SHA-256 of what the step was given.
	InputDigest []byte
}
