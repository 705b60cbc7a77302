package store

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/gather"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store/db"
)

const (
	maxGroupEvents = 300
	maxGroupBytes  = 4 << 20
)

// Config says how events are grouped, and how long leases are.
type Config struct {
	// Lanes is how many groups may commit at the same time.
	Lanes int
	// Lease is how long a runner may be silent.
	Lease time.Duration
}

// Deps is what a Store works with.
type Deps struct {
	// Pool carries groups and reads; Control is a small pool of its own for heartbeats and sweeps.
	Pool, Control *pgxpool.Pool
	Clock         clock.Clock
	IDs           *ids.Source
	Compile       Compile
	Codec         *Codec
	Window        *Window
	// Publish takes what a committed group has to tell. It must not wait.
	Publish func(Notices)
	// Random returns numbers in [0, 1), for jitter; it is called by several goroutines.
	Random func() float64
}

// Store keeps the state of runs and steps. It is safe for concurrent use.
type Store struct {
	cfg       Config
	pool      *pgxpool.Pool
	control   *pgxpool.Pool
	clock     clock.Clock
	ids       *ids.Source
	codec     *Codec
	window    *Window
	publish   func(Notices)
	random    func() float64
	pipelines *pipelines
	policies  atomic.Pointer[map[string]Policy]
	budgets   batchBudgets

	events    *gather.Collector[*Event]
	creations *gather.Collector[*NewRun]
	beats     *gather.Collector[*Beat]
}

// New returns a Store, which commits once Run is called.
func New(deps Deps, cfg Config) *Store {
	s := &Store{
		cfg: cfg, pool: deps.Pool, control: deps.Control, clock: deps.Clock, ids: deps.IDs, codec: deps.Codec,
		window: deps.Window, publish: deps.Publish, random: deps.Random, pipelines: newPipelines(deps.Compile),
	}
	s.events = gather.New(gather.Config[*Event]{
		Lanes: cfg.Lanes, MaxEvents: maxGroupEvents, MaxBytes: maxGroupBytes,
		Lane: (*Event).lane, Kind: (*Event).kind, Size: (*Event).weight, Commit: s.commitEvents,
	})
	s.creations = gather.New(gather.Config[*NewRun]{
		Lanes: cfg.Lanes, MaxEvents: maxGroupEvents, MaxBytes: maxGroupBytes,
		Lane: (*NewRun).lane, Size: (*NewRun).weight, Commit: s.commitCreations,
	})
	s.beats = gather.New(gather.Config[*Beat]{Lanes: 1, MaxEvents: maxGroupEvents, Commit: s.commitBeats})
	return s
}

// Run commits what is submitted until ctx ends, and then what is queued.
func (s *Store) Run(ctx context.Context) error {
	var all errgroup.Group
	all.Go(func() error { return s.events.Run(ctx) })
	all.Go(func() error { return s.creations.Run(ctx) })
	all.Go(func() error { return s.beats.Run(ctx) })
	return all.Wait()
}

// Submit waits until the events are committed, and returns for each why it had no effect: ErrNoRun, a refusal of the
// machine's (*machine.StaleError, *machine.IllegalError), or that the store is away. Events must not be touched any more
// when ctx ended before the answer came.
func (s *Store) Submit(ctx context.Context, events ...*Event) []error {
	errs := s.events.SubmitAll(ctx, events)
	for i, err := range errs {
		if err == nil {
			errs[i] = events[i].refused
		}
	}
	return errs
}

// Window returns the window into the streams.
func (s *Store) Window() *Window { return s.window }

// Codec returns the codec for documents.
func (s *Store) Codec() *Codec { return s.codec }

// read returns the queries for single statements on the large pool.
func (s *Store) read() *db.Queries { return db.New(s.pool) }

// Notices is what a committed group has to tell.
type Notices struct {
	// Entries are steps that are to be added to the stream of their class.
	Entries []Entry
	// Changes are runs whose state has changed.
	Changes []Change
	// Owed says that the gateway must be told something.
	Owed bool
	// Timers are those that run out so soon that nobody might find them in time.
	Timers []SoonTimer
}

// TimerHorizon is how far ahead timers are told of in Notices, and are to be looked for: it is longer than the time between
// two looks.
const TimerHorizon = 1500 * time.Millisecond

// SoonTimer is a timer that runs out within TimerHorizon.
type SoonTimer struct {
	Timer
	// Fires is when it has surely run out, by this process's clock.
	Fires time.Time
}

// Entry is a step in a stream.
type Entry struct {
	Class machine.Class
	Ref
}

// Change is a new state of a run.
type Change struct {
	RunID  uuid.UUID
	Status machine.RunStatus
}

// NewRandom returns a source of numbers in [0, 1) for Deps.Random. Equal seeds give equal numbers.
func NewRandom(seed uint64) func() float64 {
	var mu sync.Mutex
	source := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // jitter keeps no secret
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return source.Float64()
	}
}
