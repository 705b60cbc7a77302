// Package economy sends requests through the batch APIs of providers, at their discount, and brings back the answers hours
// later. A request enters the lane with its row in the call log (store.Begin with an Item) and leaves it settled: answered,
// failed, or withdrawn, so that it is asked in the usual way. In between nobody waits for it: its step is parked, and told
// when it is settled.
//
// All state is in PostgreSQL, so any replica does what is due, and none is needed. A batch is noted before it is made; one
// whose maker died is looked for at the provider before it is made again.
package economy

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/store"
)

// API is a provider's batch API.
type API interface {
	// EncodeItem makes the body of a request.
	EncodeItem(r provider.Request) ([]byte, error)
	// Size is the most requests and bytes that a batch may have.
	Size() (items int, size int64)
	// Submit makes a batch and returns the provider's name for it. A provider.BatchError that is Refused says that there is
	// no batch and never will be.
	Submit(ctx context.Context, b provider.Batch) (string, error)
	// FindBatch looks for a batch that may have been made, among those that are not known; provider.ErrNoBatch if there is
	// none.
	FindBatch(ctx context.Context, b provider.Batch, known []string) (string, error)
	// LookAtBatch says how far a batch is.
	LookAtBatch(ctx context.Context, id string) (provider.BatchStatus, error)
	// BatchResults reads what came of the requests of a batch that has ended.
	BatchResults(ctx context.Context, status provider.BatchStatus, heard func(provider.BatchResult) error) error
	// CancelBatch asks for a batch to be stopped.
	CancelBatch(ctx context.Context, id string) error
}

// Config says how patient the lane is.
type Config struct {
	// Gather is how long requests are gathered for a batch.
	Gather time.Duration
	// LookEvery is how often a batch is looked at.
	LookEvery time.Duration
	// AdoptAfter is how old a job in preparation is before it is found out whether it was made: longer than a provider takes to
	// list what it has made.
	AdoptAfter time.Duration
}

// Deps is what a Lane works with.
type Deps struct {
	Store *store.Store
	Clock clock.Clock
	IDs   *ids.Source
	Log   *slog.Logger
	// Holder is this gateway.
	Holder uuid.UUID
	// API returns the batch API of a provider; false if it has none any more.
	API func(provider string) (API, bool)
	// Settle reads an answer that came with a batch and stores what came of the request.
	Settle func(ctx context.Context, item store.ItemRef, job store.Job, x provider.Exchange) error
	// Wake tells steps that what they wait for may have happened.
	Wake func(ctx context.Context, steps []*systemv1.StepRef) error
	// Counted is told how many requests are in which state of the lane.
	Counted func([]store.LaneCount)
}

// Lane is the economy lane. Run it once in each gateway.
type Lane struct {
	Deps
	cfg Config
}

// New returns a Lane.
func New(deps Deps, cfg Config) *Lane { return &Lane{Deps: deps, cfg: cfg} }

// The times of the lane's loops.
const (
	sweepEvery = 2 * time.Second
	tellEvery  = 500 * time.Millisecond
	// tellAgain is after how long a step is told once more: it may not have been parked yet when it was told first.
	tellAgain = 20 * time.Second
	tellings  = 2
	tellMost  = 500
	// settleMost is how many withdrawn requests are settled at a time.
	settleMost = 500
)

// Run does what is due until ctx ends.
func (l *Lane) Run(ctx context.Context) error {
	var all errgroup.Group
	for _, loop := range []struct {
		every time.Duration
		turn  func(context.Context) error
	}{
		{min(sweepEvery, l.cfg.Gather), l.submit},
		{min(sweepEvery, l.cfg.LookEvery), l.look},
		{sweepEvery, l.withdraw},
		{tellEvery, l.tell},
	} {
		all.Go(func() error {
			return clock.Every(ctx, l.Clock, loop.every, func(ctx context.Context) {
				if err := loop.turn(ctx); err != nil && ctx.Err() == nil {
					l.Log.WarnContext(ctx, "economy lane", "error", err)
				}
			})
		})
	}
	return all.Wait()
}
