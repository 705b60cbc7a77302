package store

import (
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store/db"
)

// run is a run in memory while a group works on it.
type run struct {
	id       uuid.UUID
	tenant   string
	entityID string
	labels   []byte
	callback string
	budget   *money.Pico
	priority int32
	// version is that of the stored row; readers see it as the etag.
	version int64
	// key is the value of the pipeline's concurrency key, and seated says that the run counts against its limit.
	key    string
	seated bool
	// batch is the batch that it is an item of; zero for none.
	batch uuid.UUID
	// created is set for a run that the group stores for the first time.
	created *NewRun

	// listed says that an event of the group concerns it.
	listed bool
	// wanting says that an event of the group has asked for rows of it.
	wanting  bool
	pipeline *Pipeline
	plan     *machine.Plan
	head     machine.Run
	rows     *machine.Rows
	ledger   ledger
	// stored are head and ledger as they stand in the database, and held what the run's rows there say.
	stored columns
	held   bool
	// details holds the newest failure of a row in words; the machine knows codes only.
	details map[machine.Key]string
	// wrote says which event has written the result or the review of a step or shard.
	wrote map[machine.Key]*Event
	// items are the documents of the shards that the group makes.
	items map[machine.Key]storedDocument
}

// ledger is what the head of a run has beside the machine's part.
type ledger struct {
	cost        money.Pico
	costVersion int64
	payloads    int32
	bytes       int64
}

// columns are those of core.pipeline_run that a group may change, in a form that can be compared.
type columns struct {
	class, status, state, currentStep, reason, detail, undo string
	stepsDone, spendEpoch                                   int
	seq                                                     int64
	budget                                                  money.Pico // noLimit for none
	deadline, paused, cancel, started, finished             time.Time
	ledger                                                  ledger
}

// learn takes over a newer figure of what the run has spent.
func (r *run) learn(spend *Spend) {
	if spend != nil && spend.Version > r.ledger.costVersion {
		r.ledger.cost, r.ledger.costVersion = spend.Spent, spend.Version
	}
}

// ref is the machine's name of a step; an unknown step has an index that no plan has.
func (r *run) ref(ref Ref) machine.Ref {
	named := machine.Ref{Key: machine.Key{Step: machine.AllSteps, Shard: ref.Shard}, Generation: ref.Generation}
	if ref.Step == "" {
		return named
	}
	step, known := r.plan.Index(ref.Step)
	if !known {
		step = len(r.plan.Steps)
	}
	named.Step = step
	if known && ref.Generation == CurrentGeneration {
		named.Generation = r.head.State.Heads[step].Generation
	}
	return named
}

// name is the step's name; empty for all steps.
func (r *run) name(step int) string {
	if step == machine.AllSteps {
		return ""
	}
	return r.plan.Steps[step].Name
}

// currentStep is the name of the first step in pipeline order that is not finished; empty when the run has ended.
func (r *run) currentStep() string {
	if step, open := r.head.CurrentStep(r.plan); open {
		return r.plan.Steps[step].Name
	}
	return ""
}

// columns returns what the run's row is to hold.
func (r *run) columns() (columns, error) {
	state, err := r.head.State.MarshalJSON()
	if err != nil {
		return columns{}, err
	}
	h := &r.head
	return columns{
		class: string(h.Class), status: string(h.Status), state: string(state), currentStep: r.currentStep(),
		reason: string(h.Reason), detail: h.Detail, undo: string(h.Undo),
		stepsDone: h.StepsDone, spendEpoch: h.SpendEpoch, seq: h.Seq, budget: orNoLimit(r.budget),
		deadline: h.DeadlineAt, paused: h.PausedAt, cancel: h.CancelRequestedAt, started: h.StartedAt, finished: h.FinishedAt,
		ledger: r.ledger,
	}, nil
}

// loadRun makes a run of its row.
func loadRun(row *db.ReadRunsRow, p *Pipeline) (*run, error) {
	r := &run{
		id: row.ID, tenant: row.Tenant, entityID: row.EntityID, labels: row.Labels, callback: row.CallbackUrl,
		budget: row.BudgetUsd, priority: row.Priority, version: row.Version,
		key: row.ConcurrencyKey, seated: row.Seated, batch: uuid.UUID(idOr0(row.BatchID)),
		pipeline: p, plan: p.Plan(machine.Class(row.Class)),
		ledger: ledger{cost: row.CostUsd, costVersion: row.CostVersion, payloads: row.Payloads, bytes: row.Bytes},
		head: machine.Run{
			Status: machine.RunStatus(row.Status), Reason: machine.Reason(row.Reason), Detail: row.Error,
			Class: machine.Class(row.Class), StepsDone: int(row.StepsDone), SpendEpoch: int(row.SpendEpoch), Seq: row.Seq,
			Undo: machine.Undo(row.Undo), CreatedAt: row.CreatedAt, NotBefore: timeOr0(row.NotBefore),
			StartedAt: timeOr0(row.StartedAt), FinishedAt: timeOr0(row.FinishedAt), DeadlineAt: row.DeadlineAt,
			PausedAt: timeOr0(row.PausedAt), CancelRequestedAt: timeOr0(row.CancelRequestedAt),
		},
	}
	if err := r.head.State.UnmarshalJSON(row.State); err != nil {
		return nil, err
	}
	r.held = r.head.State.Held
	r.stored = columns{
		class: row.Class, status: row.Status, state: string(row.State), currentStep: row.CurrentStep,
		reason: row.Reason, detail: row.Error, undo: row.Undo,
		stepsDone: int(row.StepsDone), spendEpoch: int(row.SpendEpoch), seq: row.Seq, budget: orNoLimit(row.BudgetUsd),
		deadline: row.DeadlineAt, paused: r.head.PausedAt, cancel: r.head.CancelRequestedAt,
		started: r.head.StartedAt, finished: r.head.FinishedAt, ledger: r.ledger,
	}
	return r, nil
}

func timeOr0(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func idOr0(id *uuid.UUID) machine.ID {
	if id == nil {
		return machine.ID{}
	}
	return machine.ID(*id)
}

// explain notes the newest failure of a row in words.
func (r *run) explain(k machine.Key, detail string) {
	if r.details == nil {
		r.details = map[machine.Key]string{}
	}
	r.details[k] = detail
}

// row returns the live row; the zero row if it has none.
func (r *run) row(k machine.Key) machine.Live {
	row, _ := r.rows.Get(k)
	return row
}
