package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/llmgateway/store/db"
)

// LaneHolder holds the requests that are in the economy lane. It is no gateway, so no gateway's end makes them ambiguous.
var LaneHolder = uuid.UUID{0: 0xec} //nolint:gochecknoglobals // a constant that Go cannot write as one

// Item is what the economy lane must know of a request, beside its row.
type Item struct {
	// CustomID is its name within its batch.
	CustomID string
	// Body is the request as the provider gets it.
	Body []byte
	// LiveIn is how long it may take, so that there is time left to ask in the usual way.
	LiveIn time.Duration
}

// ItemRef names a request in the lane.
type ItemRef struct {
	Key      Key
	TryNo    int32
	CustomID string
	// Body is the request; only from Items.
	Body []byte
}

// Job is a batch at a provider.
type Job struct {
	ID              uuid.UUID
	Provider, Model string
	// State is one of the Job constants.
	State JobState
	// ProviderJob is the provider's name for it; empty while that is not known.
	ProviderJob string
	Items       int
	CreatedAt   time.Time
}

func jobOf(r db.DueJobsRow) Job {
	return Job{r.ID, r.Provider, r.Model, JobState(r.State), r.ProviderJob, int(r.Items), r.CreatedAt}
}

// JobState is how far a Job is.
type JobState string

// The states of jobs.
const (
	// JobPreparing: it may or may not be at the provider.
	JobPreparing JobState = "preparing"
	// JobSent: it is.
	JobSent JobState = "sent"
	// JobCancelling: it was asked to stop.
	JobCancelling JobState = "cancelling"
)

// Kind is what one batch may hold: requests to one model of one provider.
type Kind struct{ Provider, Model string }

// FindGathered returns the kinds of which most requests wait, or one for longer than age.
func (s *Store) FindGathered(ctx context.Context, age time.Duration, most int) ([]Kind, error) {
	rows, err := db.New(s.control).FindGathered(ctx, age, int32(most))
	if err != nil {
		return nil, fmt.Errorf("find gathered items: %w", pg.Fault(err))
	}
	kinds := make([]Kind, len(rows))
	for i, r := range rows {
		kinds[i] = Kind{Provider: r.Provider, Model: r.Model}
	}
	return kinds, nil
}

// TakeWaiting makes a job of up to most waiting requests that have up to mostBytes together, at least one. It is nil when
// none waits.
func (s *Store) TakeWaiting(ctx context.Context, id, holder uuid.UUID, kind Kind, most int, mostBytes int64) (*Job, error) {
	var job *Job
	err := pg.InTx(ctx, s.control, func(ctx context.Context, tx pgx.Tx) error {
		job = nil
		query := db.New(tx)
		rows, err := query.LockWaiting(ctx, db.LockWaitingParams{Provider: kind.Provider, Model: kind.Model, Most: int32(most)})
		if err != nil || len(rows) == 0 {
			return err
		}
		attach := db.AttachItemsParams{JobID: &id}
		var size int64
		for i, r := range rows {
			if size += r.Size; size > mostBytes && i > 0 {
				break
			}
			attach.RunIds, attach.CallKeys = append(attach.RunIds, r.RunID), append(attach.CallKeys, r.CallKey)
			attach.TryNos = append(attach.TryNos, r.TryNo)
		}
		job = &Job{ID: id, Provider: kind.Provider, Model: kind.Model, State: JobPreparing, Items: len(attach.RunIds)}
		if err := query.InsertJob(ctx, db.InsertJobParams{
			ID: id, Provider: kind.Provider, Model: kind.Model, Holder: holder, Items: int32(job.Items),
		}); err != nil {
			return err
		}
		return query.AttachItems(ctx, attach)
	})
	if err != nil {
		return nil, fmt.Errorf("take waiting items: %w", pg.Fault(err))
	}
	return job, nil
}

// AdoptJobs returns jobs in preparation, older than age, that no other living gateway prepares, and makes them the holder's,
// who must not be preparing any at the time.
func (s *Store) AdoptJobs(ctx context.Context, holder uuid.UUID, age time.Duration) ([]Job, error) {
	rows, err := db.New(s.control).AdoptJobs(ctx, holder, age)
	if err != nil {
		return nil, fmt.Errorf("adopt jobs: %w", pg.Fault(err))
	}
	jobs := make([]Job, len(rows))
	for i, r := range rows {
		jobs[i] = jobOf(db.DueJobsRow(r))
	}
	return jobs, nil
}

// DueJobs returns the jobs at providers that are to be looked at now; each is due again after every.
func (s *Store) DueJobs(ctx context.Context, every time.Duration) ([]Job, error) {
	rows, err := db.New(s.control).DueJobs(ctx, every)
	if err != nil {
		return nil, fmt.Errorf("find due jobs: %w", pg.Fault(err))
	}
	jobs := make([]Job, len(rows))
	for i, r := range rows {
		jobs[i] = jobOf(r)
	}
	return jobs, nil
}

// FindLate returns the jobs that are to be stopped: the time of one of their requests has come, or nobody needs any.
func (s *Store) FindLate(ctx context.Context) ([]Job, error) {
	rows, err := db.New(s.control).FindLate(ctx)
	if err != nil {
		return nil, fmt.Errorf("find late jobs: %w", pg.Fault(err))
	}
	jobs := make([]Job, len(rows))
	for i, r := range rows {
		jobs[i] = jobOf(db.DueJobsRow(r))
	}
	return jobs, nil
}

// NoteSent notes that a job is at its provider, under a name. It reports whether it was in preparation.
func (s *Store) NoteSent(ctx context.Context, id uuid.UUID, providerJob string, lookIn time.Duration) (bool, error) {
	n, err := db.New(s.control).NoteSent(ctx, db.NoteSentParams{ID: id, ProviderJob: providerJob, LookIn: lookIn})
	if err != nil {
		return false, fmt.Errorf("note a sent job: %w", pg.Fault(err))
	}
	return n > 0, nil
}

// NoteCancelling notes that a job was asked to stop.
func (s *Store) NoteCancelling(ctx context.Context, id uuid.UUID) error {
	if err := db.New(s.control).NoteCancelling(ctx, id); err != nil {
		return fmt.Errorf("note a job that is cancelled: %w", pg.Fault(err))
	}
	return nil
}

// ReturnJob forgets a job that is not at its provider; its requests wait again.
func (s *Store) ReturnJob(ctx context.Context, id uuid.UUID) error {
	return s.endJob(ctx, id, func(query *db.Queries) error { return query.DetachItems(ctx, &id) })
}

// EndJob forgets a job of which nothing comes any more; what it did not answer is withdrawn.
func (s *Store) EndJob(ctx context.Context, id uuid.UUID) error {
	return s.endJob(ctx, id, func(query *db.Queries) error { return query.WithdrawRest(ctx, &id) })
}

func (s *Store) endJob(ctx context.Context, id uuid.UUID, items func(*db.Queries) error) error {
	err := pg.InTx(ctx, s.control, func(ctx context.Context, tx pgx.Tx) error {
		query := db.New(tx)
		if err := items(query); err != nil {
			return err
		}
		return query.DeleteJob(ctx, id)
	})
	if err != nil {
		return fmt.Errorf("end a job: %w", pg.Fault(err))
	}
	return nil
}

// KnownJobs returns the provider's names of the jobs that are known.
func (s *Store) KnownJobs(ctx context.Context, provider string) ([]string, error) {
	names, err := db.New(s.control).KnownJobs(ctx, provider)
	if err != nil {
		return nil, fmt.Errorf("list known jobs: %w", pg.Fault(err))
	}
	return names, nil
}

// Items returns the requests of a job that are not settled, with their bodies, in the order of their custom ids.
func (s *Store) Items(ctx context.Context, job uuid.UUID) ([]ItemRef, error) {
	rows, err := db.New(s.pool).ListItems(ctx, &job)
	if err != nil {
		return nil, fmt.Errorf("list items: %w", pg.Fault(err))
	}
	items := make([]ItemRef, len(rows))
	for i, r := range rows {
		items[i] = ItemRef{Key: Key{r.RunID, [32]byte(r.CallKey)}, TryNo: r.TryNo, CustomID: r.CustomID, Body: r.Body}
	}
	return items, nil
}

// ItemNames returns the requests of a job that are not settled, by their custom ids.
func (s *Store) ItemNames(ctx context.Context, job uuid.UUID) (map[string]ItemRef, error) {
	rows, err := db.New(s.pool).NameItems(ctx, &job)
	if err != nil {
		return nil, fmt.Errorf("list items: %w", pg.Fault(err))
	}
	items := make(map[string]ItemRef, len(rows))
	for _, r := range rows {
		items[r.CustomID] = ItemRef{Key: Key{r.RunID, [32]byte(r.CallKey)}, TryNo: r.TryNo, CustomID: r.CustomID}
	}
	return items, nil
}

// FinishItems notes that requests are settled, so that their steps are told.
func (s *Store) FinishItems(ctx context.Context, items []ItemRef) error {
	if len(items) == 0 {
		return nil
	}
	var rows db.FinishItemsParams
	for _, i := range items {
		rows.RunIds, rows.CallKeys = append(rows.RunIds, i.Key.RunID), append(rows.CallKeys, i.Key.Digest[:])
		rows.TryNos = append(rows.TryNos, i.TryNo)
	}
	if err := db.New(s.control).FinishItems(ctx, rows); err != nil {
		return fmt.Errorf("finish items: %w", pg.Fault(err))
	}
	return nil
}

// WithdrawWaiting takes out of the lane what waits and is cancelled, or has waited until its time came.
func (s *Store) WithdrawWaiting(ctx context.Context) error {
	if err := db.New(s.control).WithdrawWaiting(ctx); err != nil {
		return fmt.Errorf("withdraw items: %w", pg.Fault(err))
	}
	return nil
}

// FindWithdrawn returns up to most requests that are to be settled as not sent.
func (s *Store) FindWithdrawn(ctx context.Context, most int) ([]ItemRef, error) {
	rows, err := db.New(s.control).FindWithdrawn(ctx, int32(most))
	if err != nil {
		return nil, fmt.Errorf("find withdrawn items: %w", pg.Fault(err))
	}
	items := make([]ItemRef, len(rows))
	for i, r := range rows {
		items[i] = ItemRef{Key: Key{r.RunID, [32]byte(r.CallKey)}, TryNo: r.TryNo}
	}
	return items, nil
}

// Waiter is a step whose request is settled.
type Waiter struct {
	Item              ItemRef
	Step              string
	Shard, Generation int32
}

// TakeTellings returns up to most steps that are to be told; each is to be told again after againIn, until it was told often
// enough.
func (s *Store) TakeTellings(ctx context.Context, againIn time.Duration, most int) ([]Waiter, error) {
	rows, err := db.New(s.control).TakeTellings(ctx, againIn, int32(most))
	if err != nil {
		return nil, fmt.Errorf("find steps to tell: %w", pg.Fault(err))
	}
	steps := make([]Waiter, len(rows))
	for i, r := range rows {
		item := ItemRef{Key: Key{r.RunID, [32]byte(r.CallKey)}, TryNo: r.TryNo}
		steps[i] = Waiter{item, r.Step, r.Shard, r.Generation}
	}
	return steps, nil
}

// NoteTold notes that steps were told, and forgets the requests of those that were told so many times.
func (s *Store) NoteTold(ctx context.Context, told []Waiter, times int) error {
	if len(told) > 0 {
		var rows db.NoteToldParams
		for _, w := range told {
			rows.RunIds, rows.CallKeys = append(rows.RunIds, w.Item.Key.RunID), append(rows.CallKeys, w.Item.Key.Digest[:])
			rows.TryNos = append(rows.TryNos, w.Item.TryNo)
		}
		if err := db.New(s.control).NoteTold(ctx, rows); err != nil {
			return fmt.Errorf("note told steps: %w", pg.Fault(err))
		}
	}
	return s.forgetItems(ctx, times)
}

func (s *Store) forgetItems(ctx context.Context, times int) error {
	if err := db.New(s.control).ForgetItems(ctx, int32(times)); err != nil {
		return fmt.Errorf("forget items: %w", pg.Fault(err))
	}
	return nil
}

// LaneCount is how many requests of a provider are in a state of the lane.
type LaneCount struct {
	Provider, State string
	Items           int64
}

// CountLane counts the requests in the lane.
func (s *Store) CountLane(ctx context.Context) ([]LaneCount, error) {
	rows, err := db.New(s.control).CountLane(ctx)
	if err != nil {
		return nil, fmt.Errorf("count the economy lane: %w", pg.Fault(err))
	}
	counts := make([]LaneCount, len(rows))
	for i, r := range rows {
		counts[i] = LaneCount(r)
	}
	return counts, nil
}

// writeItems puts the requests of the group into the lane that are to go there.
func (g *group) writeItems(ctx context.Context) error {
	rows := db.InsertItemsParams{Now: g.now}
	for _, t := range g.newTries {
		item := t.begun.Item
		if item == nil {
			continue
		}
		q := t.begun.Question
		rows.RunIds, rows.CallKeys = append(rows.RunIds, t.begun.Key.RunID), append(rows.CallKeys, t.begun.Key.Digest[:])
		rows.TryNos, rows.CustomIds = append(rows.TryNos, t.no), append(rows.CustomIds, item.CustomID)
		rows.Steps, rows.Shards = append(rows.Steps, q.Step), append(rows.Shards, q.Shard)
		rows.Generations = append(rows.Generations, q.Generation)
		rows.Providers, rows.Models = append(rows.Providers, t.begun.Sending.Provider), append(rows.Models, t.begun.Sending.Model)
		rows.Bodies, rows.LiveIns = append(rows.Bodies, item.Body), append(rows.LiveIns, item.LiveIn)
	}
	if len(rows.RunIds) == 0 {
		return nil
	}
	return g.query.InsertItems(ctx, rows)
}
