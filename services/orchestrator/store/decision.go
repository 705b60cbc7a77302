package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// summary is what the chain of decisions keeps of a run before and after.
type summary struct {
	Status      string `json:"status"`
	CurrentStep string `json:"current_step,omitempty"`
	StepsDone   int    `json:"steps_done"`
	Reason      string `json:"reason,omitempty"`
	Class       string `json:"class"`
	SpendEpoch  int    `json:"spend_epoch"`
}

func (r *run) summary() summary {
	return summary{
		Status: string(r.head.Status), CurrentStep: r.currentStep(), StepsDone: r.head.StepsDone,
		Reason: string(r.head.Reason), Class: string(r.head.Class), SpendEpoch: r.head.SpendEpoch,
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
	g.actions = append(g.actions, action{
		At: g.now, Tenant: r.tenant, Actor: e.Decision.Actor, Action: e.Decision.Action, Reason: e.Decision.Reason,
		RunID: r.id, Step: e.Step, Shard: e.Shard, Before: before, After: r.summary(),
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
