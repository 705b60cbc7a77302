// Package store keeps the gateway's state in PostgreSQL: every call with its requests, and what runs have spent.
//
// Changes of calls are committed in groups (package gather), and each is on disk before it is answered. Whatever changes a
// run's calls locks the run's purse first, so the figures agree by construction: what a run has spent is the sum of its
// requests' costs, and what is reserved is the worst case of those in flight. It is the one place that writes the schema.
package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"pawl.internal/services/internal/gather"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/llmgateway/store/db"
)

const (
	maxGroupEvents = 300
	maxGroupBytes  = 4 << 20
	// findLanes is how many groups of lookups may be under way.
	findLanes = 2
)

// Store keeps the state. It is safe for concurrent use.
type Store struct {
	pool    *pgxpool.Pool
	control *pgxpool.Pool
	changes *gather.Collector[Change]
	finds   *gather.Collector[*find]
	owed    *owedRuns
	// holder is in whose rows of spend_day this store books; see BookAs.
	holder uuid.UUID
}

// New returns a Store that commits once Run is called. Pool carries changes and reads; control is a small pool of its own
// for leases and sweeps. Lanes is how many groups of changes may commit at the same time.
func New(pool, control *pgxpool.Pool, lanes int) *Store {
	s := &Store{pool: pool, control: control, owed: newOwedRuns()}
	s.changes = gather.New(gather.Config[Change]{
		Lanes: lanes, MaxEvents: maxGroupEvents, MaxBytes: maxGroupBytes, Lane: lane, Size: Change.size, Commit: s.commitGroup,
	})
	s.finds = gather.New(gather.Config[*find]{
		Lanes: findLanes, MaxEvents: maxGroupEvents, Lane: func(f *find) uint64 { return uint64(f.key.Digest[0]) }, Commit: s.findGroup,
	})
	return s
}

// BookAs makes the store keep what is spent in rows of this holder, so that replicas do not wait for each other. It must be
// called before Run.
func (s *Store) BookAs(holder uuid.UUID) { s.holder = holder }

// Run commits what is submitted until ctx ends, and then what is queued.
func (s *Store) Run(ctx context.Context) error {
	var both errgroup.Group
	both.Go(func() error { return s.changes.Run(ctx) })
	both.Go(func() error { return s.finds.Run(ctx) })
	return both.Wait()
}

// Submit waits until the change is on disk; its result stands in it then. When ctx ends first, the change may still be
// carried out, and must not be touched any more.
func (s *Store) Submit(ctx context.Context, c Change) error { return s.changes.Submit(ctx, c) }

// SubmitAll is Submit for several changes at once. The errors stand at the changes' indexes.
func (s *Store) SubmitAll(ctx context.Context, changes []Change) []error {
	return s.changes.SubmitAll(ctx, changes)
}

// Found is what is known of a call.
type Found struct {
	// State is empty when the key is not taken.
	State CallState
	// Since is PostgreSQL's clock at the time of the reading.
	Since time.Time
	// AmbiguousTargets has the target, as provider/model, of each request of unknown fate.
	AmbiguousTargets []string
	// InLane is whether a request is in the economy lane, and LaneTries how many there were.
	InLane    bool
	LaneTries int
	// InputTokens and OutputTokens are the sums over all requests, Cost is the call's, and Spend the run's.
	InputTokens, OutputTokens int64
	Cost                      money.Pico
	Spend                     Spend
	// Answer is the winning request's; only if State is CallAnswered.
	Answer Answer
}

// Answer is a stored answer.
type Answer struct {
	Provider, Model, Format string
	HTTPStatus              int
	CachedInputTokens       int64
	Body                    []byte
}

// find is a lookup on its way.
type find struct {
	key   Key
	found Found
}

// Find reads what is known of a call.
func (s *Store) Find(ctx context.Context, key Key) (Found, error) {
	f := &find{key: key}
	if err := s.finds.Submit(ctx, f); err != nil {
		return Found{}, err
	}
	return f.found, nil
}

// findGroup carries out lookups with one query.
func (s *Store) findGroup(ctx context.Context, _ int, group []*find) error {
	var params db.FindCallsParams
	for i, f := range group {
		params.Ns = append(params.Ns, int32(i))
		params.RunIds = append(params.RunIds, f.key.RunID)
		params.CallKeys = append(params.CallKeys, f.key.Digest[:])
	}
	params.LeastID, params.MostID = pg.Bounds(params.RunIds...)
	rows, err := db.New(s.pool).FindCalls(ctx, params)
	if err != nil {
		return fmt.Errorf("find calls: %w", pg.Fault(err))
	}
	for _, r := range rows {
		group[r.N].found = Found{
			State: CallState(r.State), Since: r.Now, AmbiguousTargets: r.AmbiguousTargets,
			InLane: r.InLane, LaneTries: int(r.LaneTries),
			InputTokens: r.InputTokens, OutputTokens: r.OutputTokens, Cost: r.Cost,
			Spend: Spend{Amount: r.Spent, Version: r.Version},
			Answer: Answer{
				Provider: r.Provider, Model: r.Model, Format: r.Format, HTTPStatus: int(r.HttpStatus),
				CachedInputTokens: r.CachedInputTokens, Body: r.Answer,
			},
		}
	}
	return nil
}

// CountAmbiguous counts the requests of unknown fate over all questions of a generation of a step or shard.
func (s *Store) CountAmbiguous(ctx context.Context, runID uuid.UUID, step string, shard, generation int32) (int, error) {
	n, err := db.New(s.pool).CountAmbiguous(ctx, db.CountAmbiguousParams{
		RunID: runID, Step: step, Shard: shard, Generation: generation,
	})
	if err != nil {
		return 0, fmt.Errorf("count ambiguous requests: %w", pg.Fault(err))
	}
	return int(n), nil
}

// MakePartitions makes the tables' partitions of the next days, as far as they are missing.
func (s *Store) MakePartitions(ctx context.Context, now time.Time) error {
	return pg.MakePartitions(ctx, s.control, schemaName, now)
}

// longestText bounds what is kept of a provider's words, in bytes; its whole answer is kept apart.
const longestText = 2000

// text makes a string fit for PostgreSQL: what providers say may be anything, and must not keep an answer from being stored.
func text(s string) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s[:min(len(s), 2*longestText)], "\x00", ""), "�")
	if len(s) <= longestText {
		return s
	}
	return strings.ToValidUTF8(s[:longestText], "") + "…"
}
