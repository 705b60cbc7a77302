package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/money"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store/db"
)

// The refusals of CreateRun.
var (
	// ErrNoPipeline says that the tenant has no such pipeline, or not in that version.
	ErrNoPipeline = errors.New("there is no such pipeline")
	// ErrKeyReused says that the idempotency key was used before with another request.
	ErrKeyReused = errors.New("the idempotency key was used with another request")
)

// keyKept is how long an idempotency key is kept at least; it is never deleted before its run.
const keyKept = 24 * time.Hour

// NewRun is a run to be created, and, after CreateRun, the run that its idempotency key stands for. It is used once.
type NewRun struct {
	// ID is the run's, if it is the first of its key.
	ID     uuid.UUID
	Tenant string
	// Key makes the creation safe to repeat: RequestDigest, a SHA-256, says what was asked with it.
	Key           string
	RequestDigest []byte
	// Kind is `run`, `job` or `extract`.
	Kind string
	// Pipeline and Version name the pipeline; without a version it is the newest.
	Pipeline, Version string
	Input             Document
	EntityID          string
	// DocumentID is zero if the input did not come from a document.
	DocumentID  uuid.UUID
	Class       machine.Class
	Priority    int
	Labels      map[string]string
	CallbackURL string
	// ConcurrencyKey is the value of the pipeline's concurrency key; empty if it has none.
	ConcurrencyKey string
	// Budget and Deadline are nil and 0 for the pipeline's own.
	Budget   *money.Pico
	Deadline time.Duration
	// NotBefore is the earliest time for the first step; zero for at once.
	NotBefore time.Time
	// Batch is the batch that it is an item of, under the name CustomID; zero for none.
	Batch    uuid.UUID
	CustomID string

	// Found is the run of the key: this one, or with Replayed an earlier one, and its state.
	Found    uuid.UUID
	Status   machine.RunStatus
	Replayed bool

	refused error
}

// idempotencyKey names a creation.
type idempotencyKey struct{ tenant, key string }

func (n *NewRun) key() idempotencyKey { return idempotencyKey{tenant: n.Tenant, key: n.Key} }

// laneSeed is the same for all creations of the process, so that equal keys meet in one lane.
var laneSeed = maphash.MakeSeed() //nolint:gochecknoglobals // constant

func (n *NewRun) lane() uint64 { return maphash.Comparable(laneSeed, n.key()) }

func (n *NewRun) weight() int { return eventWeight + n.Input.stored() }

// CreateRun stores the run, unless its key has one already, and waits until that is committed.
func (s *Store) CreateRun(ctx context.Context, n *NewRun) error {
	if err := s.creations.Submit(ctx, n); err != nil {
		return err
	}
	return n.refused
}

// creation is the group in which runs are created.
type creation struct {
	*group
	// leaders are the first creations of each key, by key; the group's others of the same key follow them.
	leaders []*NewRun
	byKey   map[idempotencyKey]*NewRun
	// digests are the pipelines of the creations that have one.
	digests map[*NewRun]Digest
	// batches are those of the creations, by id.
	batches map[uuid.UUID]db.HoldBatchesRow
	plans   map[Digest]*Pipeline
	broken  map[Digest]error
}

func (s *Store) commitCreations(ctx context.Context, _ int, news []*NewRun) error {
	var c *creation
	err := pg.InTx(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		if c != nil {
			c.abandon()
		}
		c = s.newCreation(tx, news)
		err := c.carryOut(ctx)
		failpoint.Hit("orchestrator.create.commit")
		return err
	})
	if err != nil {
		if c != nil {
			c.abandon()
		}
		return err
	}
	failpoint.Hit("orchestrator.create.committed")
	c.follow(news)
	c.announce()
	return nil
}

// newCreation merges creations of equal keys: the first leads.
func (s *Store) newCreation(tx pgx.Tx, news []*NewRun) *creation {
	c := &creation{group: s.newGroup(tx, true), byKey: make(map[idempotencyKey]*NewRun, len(news)), digests: map[*NewRun]Digest{}}
	for _, n := range news {
		n.Found, n.Status, n.Replayed, n.refused = uuid.UUID{}, "", false, nil
		if c.byKey[n.key()] == nil {
			c.byKey[n.key()] = n
			c.leaders = append(c.leaders, n)
		}
	}
	slices.SortFunc(c.leaders, func(x, y *NewRun) int {
		return cmp.Or(cmp.Compare(x.Tenant, y.Tenant), cmp.Compare(x.Key, y.Key))
	})
	return c
}

// follow gives those who came with a key that others in the group had already what became of the first.
func (c *creation) follow(news []*NewRun) {
	for _, n := range news {
		leader := c.byKey[n.key()]
		switch {
		case n == leader:
		case leader.refused != nil:
			n.refused = leader.refused
		default:
			n.settle(leader.Found, leader.Status, leader.RequestDigest, leader.Kind)
		}
	}
}

// settle answers a creation with the run that stands for its key already.
func (n *NewRun) settle(found uuid.UUID, status machine.RunStatus, digest []byte, kind string) {
	if n.Kind != kind || !slices.Equal(n.RequestDigest, digest) {
		n.refused = ErrKeyReused
		return
	}
	n.Found, n.Status, n.Replayed = found, status, true
}

func (c *creation) carryOut(ctx context.Context) error {
	if err := c.resolve(ctx); err != nil {
		return fmt.Errorf("resolve pipelines: %w", err)
	}
	if err := c.holdBatches(ctx); err != nil {
		return fmt.Errorf("hold batches: %w", err)
	}
	won, err := c.takeKeys(ctx)
	if err != nil {
		return fmt.Errorf("take idempotency keys: %w", err)
	}
	if err := c.settleOthers(ctx, won); err != nil {
		return fmt.Errorf("read idempotency keys: %w", err)
	}
	for _, n := range c.leaders {
		if won[n.key()] {
			if err := c.create(n); err != nil {
				return err
			}
		}
	}
	return c.finish(ctx)
}

// selector names a pipeline of a tenant.
type selector struct{ tenant, name, version string }

// resolve finds the pipelines, each once, and reads the group's time.
func (c *creation) resolve(ctx context.Context) error {
	var p db.ResolvePipelinesParams
	numbers := map[selector]int32{}
	for _, n := range c.leaders {
		s := selector{tenant: n.Tenant, name: n.Pipeline, version: n.Version}
		if _, known := numbers[s]; known {
			continue
		}
		numbers[s] = int32(len(numbers))
		p.Numbers, p.Tenants = append(p.Numbers, numbers[s]), append(p.Tenants, s.tenant)
		p.Names, p.Versions = append(p.Names, s.name), append(p.Versions, s.version)
	}
	rows, err := c.query.ResolvePipelines(ctx, p)
	if err != nil {
		return err
	}
	digests := map[int32]Digest{}
	for _, row := range rows {
		c.tell(row.Now)
		if row.Digest != nil {
			digests[row.N] = Digest(row.Digest)
		}
	}
	wanted := map[Digest]owned{}
	for _, n := range c.leaders {
		digest, known := digests[numbers[selector{tenant: n.Tenant, name: n.Pipeline, version: n.Version}]]
		if known {
			c.digests[n] = digest
			wanted[digest] = owned{tenant: n.Tenant, digest: digest}
		}
	}
	c.plans, c.broken, err = c.store.pipelines.load(ctx, c.query, wanted)
	return err
}

// takeKeys inserts the keys of the creations that have a pipeline, in order, so that groups never wait for each other in a
// circle, and returns those that nobody had taken.
func (c *creation) takeKeys(ctx context.Context) (map[idempotencyKey]bool, error) {
	p := db.InsertKeysParams{ExpiresAt: c.now.Add(keyKept)}
	for _, n := range c.leaders {
		if c.plans[c.digests[n]] == nil || c.isClosed(n) {
			continue
		}
		p.Tenants, p.Keys = append(p.Tenants, n.Tenant), append(p.Keys, n.Key)
		p.RequestDigests, p.Kinds = append(p.RequestDigests, n.RequestDigest), append(p.Kinds, n.Kind)
		p.ResourceIds = append(p.ResourceIds, n.ID)
	}
	won := make(map[idempotencyKey]bool, len(p.Keys))
	if len(p.Keys) == 0 {
		return won, nil
	}
	rows, err := c.query.InsertKeys(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		won[idempotencyKey{tenant: row.Tenant, key: row.Key}] = true
	}
	return won, nil
}

// settleOthers answers the creations whose key had been taken. It is a new statement: the one that met the key waited for
// its transaction, and would not see what that has committed.
func (c *creation) settleOthers(ctx context.Context, won map[idempotencyKey]bool) error {
	var tenants, keys []string
	for _, n := range c.leaders {
		if !won[n.key()] {
			n.refused = c.notMade(n)
			tenants, keys = append(tenants, n.Tenant), append(keys, n.Key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	rows, err := c.query.ReadRunKeys(ctx, tenants, keys)
	if err != nil {
		return err
	}
	for _, row := range rows {
		n := c.byKey[idempotencyKey{tenant: row.Tenant, key: row.Key}]
		n.refused = nil
		n.settle(row.ResourceID, machine.RunStatus(row.Status), row.RequestDigest, row.Kind)
	}
	return nil
}

// notMade is the answer to a creation whose key nobody has taken, not even itself.
func (c *creation) notMade(n *NewRun) error {
	if c.isClosed(n) {
		return ErrBatchClosed
	}
	if why := c.broken[c.digests[n]]; why != nil {
		return why
	}
	return ErrNoPipeline
}

// create makes the run and lets it begin.
func (c *creation) create(n *NewRun) error {
	p := c.plans[c.digests[n]]
	labels, err := json.Marshal(mergeLabels(p.Labels, n.Labels))
	if err != nil {
		return fmt.Errorf("labels: %w", err)
	}
	plan := p.Plan(n.Class)
	r := &run{
		id: n.ID, tenant: n.Tenant, entityID: n.EntityID, labels: labels, callback: n.CallbackURL,
		budget: cmp.Or(n.Budget, p.Budget), priority: int32(n.Priority), key: n.ConcurrencyKey, batch: n.Batch, created: n, pipeline: p, plan: plan,
		head: *machine.NewRun(plan, n.Class, c.now, n.NotBefore, c.deadline(n)), rows: machine.NewRows(nil, nil),
	}
	r.head.State.Held = c.batches[n.Batch].Paused
	r.held = r.head.State.Held
	c.runs[n.ID] = r
	c.order = append(c.order, r)
	if _, err := c.transition(r, machine.Created{}, nil); err != nil {
		return fmt.Errorf("run %s: %w", n.ID, err)
	}
	n.Found, n.Status = n.ID, r.head.Status
	return nil
}

// mergeLabels returns the pipeline's labels and the run's own, which win.
func mergeLabels(pipeline, own map[string]string) map[string]string {
	merged := make(map[string]string, len(pipeline)+len(own))
	maps.Copy(merged, pipeline)
	maps.Copy(merged, own)
	return merged
}

// saveCreated adds the row of a created run.
func (g *group) saveCreated(r *run) error {
	now, err := r.columns()
	if err != nil {
		return fmt.Errorf("run %s: %w", r.id, err)
	}
	n := r.created
	input := g.keep(r, n.Input)
	now.ledger = r.ledger
	g.notices.Changes = append(g.notices.Changes, Change{RunID: r.id, Status: r.head.Status})
	g.tally(r, columns{}, now)
	p := &g.writes.created
	p.Ids, p.Tenants, p.Kinds = append(p.Ids, r.id), append(p.Tenants, r.tenant), append(p.Kinds, n.Kind)
	p.Pipelines, p.PipelineVersions = append(p.Pipelines, r.pipeline.Name), append(p.PipelineVersions, r.pipeline.Version)
	p.PipelineDigests = append(p.PipelineDigests, r.pipeline.Digest[:])
	p.StepsTotals, p.OutputSteps = append(p.StepsTotals, int32(r.plan.Total)), append(p.OutputSteps, r.pipeline.OutputStep)
	p.EntityIds, p.DocumentIds = append(p.EntityIds, n.EntityID), append(p.DocumentIds, n.DocumentID)
	p.CallbackUrls, p.Labels = append(p.CallbackUrls, n.CallbackURL), append(p.Labels, r.labels)
	p.Inputs, p.InputPayloads = append(p.Inputs, input.inline), append(p.InputPayloads, input.payload)
	p.InputBytes, p.NotBefores = append(p.InputBytes, int32(input.size)), append(p.NotBefores, r.head.NotBefore)
	p.Priorities, p.BudgetsUsd = append(p.Priorities, r.priority), append(p.BudgetsUsd, orNoLimit(r.budget))
	p.Classes, p.Statuses = append(p.Classes, now.class), append(p.Statuses, now.status)
	p.States, p.CurrentSteps = append(p.States, []byte(now.state)), append(p.CurrentSteps, now.currentStep)
	p.StepsDones, p.SpendEpochs = append(p.StepsDones, int32(now.stepsDone)), append(p.SpendEpochs, int32(now.spendEpoch))
	p.Reasons, p.Errors, p.Undos = append(p.Reasons, now.reason), append(p.Errors, now.detail), append(p.Undos, now.undo)
	p.Seqs, p.Payloads, p.Bytes = append(p.Seqs, now.seq), append(p.Payloads, now.ledger.payloads), append(p.Bytes, now.ledger.bytes)
	p.DeadlinesAt, p.PausedAt = append(p.DeadlinesAt, now.deadline), append(p.PausedAt, now.paused)
	p.CancelsRequestedAt = append(p.CancelsRequestedAt, now.cancel)
	p.StartedAt, p.FinishedAt = append(p.StartedAt, now.started), append(p.FinishedAt, now.finished)
	p.ConcurrencyKeys = append(p.ConcurrencyKeys, n.ConcurrencyKey)
	p.BatchIds, p.CustomIds = append(p.BatchIds, n.Batch), append(p.CustomIds, n.CustomID)
	return nil
}

// Submission is what was made under an idempotency key.
type Submission struct {
	ID            uuid.UUID
	Kind          string
	RequestDigest []byte
	// Status is the run's now; empty for what is no run.
	Status machine.RunStatus
}

// FindSubmission returns what was made under a tenant's key; nil if the key is new.
func (s *Store) FindSubmission(ctx context.Context, tenant, key string) (*Submission, error) {
	rows, err := s.read().ReadRunKeys(ctx, []string{tenant}, []string{key})
	if err != nil {
		return nil, fmt.Errorf("find key: %w", pg.Fault(err))
	}
	if len(rows) == 0 {
		return nil, nil
	}
	row := &rows[0]
	return &Submission{ID: row.ResourceID, Kind: row.Kind, RequestDigest: row.RequestDigest, Status: machine.RunStatus(row.Status)}, nil
}
