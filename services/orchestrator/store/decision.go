package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store/db"
)

// Decision is what a person has decided. It takes effect as a whole or not at all, and goes into the chain of what people
// did.
type Decision struct {
	// Actor is who decided, such as `person:ann`; Action what, and Reason why.
	Actor, Action, Reason string
	// IfVersion is the version of the run that the person saw; 0 for a decision that holds for any.
	IfVersion int64
	Asked     Asked
}

// Asked is what a person asked beside the action itself.
type Asked struct {
	// Budget is a new, higher budget; nil leaves the run's as it is.
	Budget *money.Pico `json:"budget_usd,omitempty"`
	// Undo says whether effects are undone; nil leaves it to the pipeline.
	Undo        *bool `json:"undo,omitempty"`
	KeepEffects bool  `json:"keep_effects,omitempty"`
	// Class is the lane to which the run goes.
	Class machine.Class `json:"class,omitempty"`
}

// record is the form that is stored; empty when nothing was asked.
func (a Asked) record() (json.RawMessage, error) {
	if a == (Asked{}) {
		return nil, nil
	}
	return json.Marshal(a)
}

// ChangedError refuses a decision on a version of the run that is not the newest any more.
type ChangedError struct {
	// Status is the run's now.
	Status machine.RunStatus
}

// Error says what the run is now.
func (e *ChangedError) Error() string {
	return fmt.Sprintf("the run has changed: it is %s now", e.Status)
}

// NoStepError refuses a decision about a step that the pipeline does not have.
type NoStepError struct {
	Step string
	// Steps are those that it has.
	Steps []string
}

// Error names the unknown step.
func (e *NoStepError) Error() string { return fmt.Sprintf("the pipeline has no step %s", e.Step) }

// BudgetError refuses a budget that is not more than what is there, or than what is spent.
type BudgetError struct {
	// Budget is the run's; nil if it has no limit. Spent is what it has spent.
	Budget *money.Pico
	Spent  money.Pico
}

// Error leaves the amounts to those who answer the person.
func (e *BudgetError) Error() string { return "the budget is not higher than before" }

// decide carries out what a person has decided, if the run is still as the person saw it.
func (g *group) decide(r *run, e *Event) {
	if e.refused = r.refusal(e); e.refused != nil {
		return
	}
	before, budget := r.summary(), r.budget
	before.Version = r.version
	if raised := e.Decision.Asked.Budget; raised != nil {
		r.budget = raised
	}
	g.carryOutOn(r, e)
	if e.refused != nil || e.Answer != machine.Applied {
		r.budget = budget
		return
	}
	if r.budget != budget && !r.head.Status.Terminal() { // a purse that is not opened anew learns of the money, too
		g.spendGate(r, r.head.SpendEpoch, true)
	}
	g.decided(r, e, before)
}

// refusal says why the decision cannot be taken on the run as it is; nil if it can.
func (r *run) refusal(e *Event) error {
	d := e.Decision
	if d.IfVersion != 0 && (d.IfVersion != r.version || r.changed()) {
		return &ChangedError{Status: r.head.Status}
	}
	if _, known := r.plan.Index(e.Step); e.Step != "" && !known {
		unknown := &NoStepError{Step: e.Step}
		for _, step := range r.plan.Steps[:r.plan.Total] {
			unknown.Steps = append(unknown.Steps, step.Name)
		}
		return unknown
	}
	if raised := d.Asked.Budget; raised != nil && (r.budget == nil || *raised <= *r.budget || *raised <= r.ledger.cost) {
		return &BudgetError{Budget: r.budget, Spent: r.ledger.cost}
	}
	return nil
}

// withMoney lets a run without a budget of its own be retried when the money was used up: it was its tenant's, which is raised
// elsewhere. Whether it is there now is seen at the gateway before anything is sent.
func (r *run) withMoney(ev machine.Event) machine.Event {
	retry, ok := ev.(machine.OperatorRetry)
	if !ok || r.budget != nil {
		return ev
	}
	retry.BudgetRaised = true
	return retry
}

// changed reports whether an event of the group has changed the run, so that its version is not the newest any more.
func (r *run) changed() bool {
	now, err := r.columns()
	return err != nil || now != r.stored
}

// summary is what the chain of decisions keeps of a run before and after.
type summary struct {
	Status      string      `json:"status"`
	CurrentStep string      `json:"current_step,omitempty"`
	StepsDone   int         `json:"steps_done"`
	Reason      string      `json:"reason,omitempty"`
	Class       string      `json:"class"`
	SpendEpoch  int         `json:"spend_epoch"`
	Budget      *money.Pico `json:"budget_usd,omitempty"`
	// Version is the run's when it was decided; only before.
	Version int64 `json:"version,omitempty"`
	// Asked is what was asked beside the action; only after.
	Asked json.RawMessage `json:"asked,omitempty"`
}

func (r *run) summary() summary {
	return summary{
		Status: string(r.head.Status), CurrentStep: r.currentStep(), StepsDone: r.head.StepsDone,
		Reason: string(r.head.Reason), Class: string(r.head.Class), SpendEpoch: r.head.SpendEpoch, Budget: r.budget,
	}
}

// action is a row of core.operator_action, as its hash covers it.
type action struct {
	Seq      int64     `json:"seq"`
	At       time.Time `json:"at"`
	Tenant   string    `json:"tenant"`
	Actor    string    `json:"actor"`
	Action   string    `json:"action"`
	RunID    uuid.UUID `json:"run_id"`
	Step     string    `json:"step"`
	Shard    int       `json:"shard"`
	Reason   string    `json:"reason"`
	Before   summary   `json:"before"`
	After    summary   `json:"after"`
	Previous []byte    `json:"previous"`
}

// decided notes what a person has changed.
func (g *group) decided(r *run, e *Event, before summary) {
	after := r.summary()
	after.Asked, _ = e.Decision.Asked.record() // amounts and truths always have a form in JSON
	g.actions = append(g.actions, action{
		At: g.now, Tenant: r.tenant, Actor: e.Decision.Actor, Action: e.Decision.Action, Reason: e.Decision.Reason,
		RunID: r.id, Step: e.Step, Shard: e.Shard, Before: before, After: after,
	})
}

// chain appends the group's decisions to the chain: each row's hash covers the row and the hash before it, so that a row
// that was changed or removed later shows.
func (g *group) chain(ctx context.Context) error {
	if len(g.actions) == 0 {
		return nil
	}
	if err := g.query.LockOperatorActions(ctx); err != nil {
		return err
	}
	last, err := g.query.LastOperatorAction(ctx)
	if err != nil {
		return fmt.Errorf("read operator actions: %w", err)
	}
	seq, hash := last.Seq, last.Hash
	for _, a := range g.actions {
		seq++
		a.Seq, a.Previous = seq, hash
		if hash, err = g.link(&a); err != nil {
			return err
		}
	}
	return nil
}

// link adds one row to what is written, and returns its hash.
func (g *group) link(a *action) ([]byte, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("operator action: %w", err)
	}
	before, err := json.Marshal(a.Before)
	if err != nil {
		return nil, fmt.Errorf("operator action: %w", err)
	}
	after, err := json.Marshal(a.After)
	if err != nil {
		return nil, fmt.Errorf("operator action: %w", err)
	}
	sum := sha256.Sum256(text)
	p := &g.writes.actions
	p.Seqs, p.Tenants, p.RunIds = append(p.Seqs, a.Seq), append(p.Tenants, a.Tenant), append(p.RunIds, a.RunID)
	p.Actors, p.Actions, p.Reasons = append(p.Actors, a.Actor), append(p.Actions, a.Action), append(p.Reasons, a.Reason)
	p.Steps, p.Shards = append(p.Steps, a.Step), append(p.Shards, int32(a.Shard))
	p.Befores, p.Afters = append(p.Befores, before), append(p.Afters, after)
	p.PreviousHashes, p.Hashes = append(p.PreviousHashes, a.Previous), append(p.Hashes, sum[:])
	return sum[:], nil
}

// Taken is a decision that was taken.
type Taken struct {
	Actor, Action string
	At            time.Time
}

// TookDecision reports whether this very decision was taken before: by the same person, about the same version of the run.
func (s *Store) TookDecision(ctx context.Context, about Ref, d *Decision) (bool, error) {
	asked, err := d.Asked.record()
	if err != nil {
		return false, err
	}
	took, err := s.read().TookDecision(ctx, db.TookDecisionParams{
		RunID: about.RunID, Actor: d.Actor, Action: d.Action, Step: about.Step, Shard: int32(about.Shard), Reason: d.Reason,
		Version: strconv.FormatInt(d.IfVersion, 10), Asked: string(asked),
	})
	return took, pg.Fault(err)
}

// LastDecision returns the newest decision about a run; nil if nobody has decided anything.
func (s *Store) LastDecision(ctx context.Context, run uuid.UUID) (*Taken, error) {
	rows, err := s.read().LastDecision(ctx, run)
	if err != nil || len(rows) == 0 {
		return nil, pg.Fault(err)
	}
	return &Taken{Actor: rows[0].Actor, Action: rows[0].Action, At: rows[0].At}, nil
}
