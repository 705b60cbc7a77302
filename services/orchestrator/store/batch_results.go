package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store/db"
)

// EndedFilter selects a page of the items of a batch that have ended.
type EndedFilter struct {
	// AfterAt and After are the end and the run of the last one of the page before.
	AfterAt    time.Time
	After      uuid.UUID
	ErrorsOnly bool
	// Most and Bytes bound the page; it always has one.
	Most, Bytes int
}

// EndedItems are items that have ended, in the order in which they did, with their results; nil for those that have none, or one
// of more than InputsMax bytes. AtEnd says that no others have ended.
type EndedItems struct {
	Runs    []db.CoreRunView
	Results [][]byte
	AtEnd   bool
}

// EndedItems returns a page of the items of a batch that have ended.
func (s *Store) EndedItems(ctx context.Context, b *Batch, f EndedFilter) (*EndedItems, error) {
	rows, err := s.read().FindEndedItems(ctx, db.FindEndedItemsParams{
		BatchID: &b.ID, AfterAt: f.AfterAt, After: f.After, ErrorsOnly: f.ErrorsOnly, Most: int32(f.Most),
	})
	if err != nil {
		return nil, fmt.Errorf("find ended items of batch %s: %w", b.ID, pg.Fault(err))
	}
	items := &EndedItems{Runs: rows, AtEnd: len(rows) < f.Most, Results: make([][]byte, len(rows))}
	wanted, places := items.wanted()
	sizes, err := s.Measure(ctx, wanted)
	if err != nil {
		return nil, err
	}
	fit, total := len(wanted), int64(0)
	for i, size := range sizes {
		if size > InputsMax {
			wanted[i].Inputs.Steps = nil // its result is left out
			continue
		}
		if total += size; total > int64(f.Bytes) && places[i] > 0 {
			items.cut(places[i])
			fit = i
			break
		}
	}
	given, err := s.Give(ctx, wanted[:fit])
	if err != nil {
		return nil, err
	}
	for i, g := range given {
		if len(wanted[i].Inputs.Steps) > 0 {
			items.Results[places[i]] = g.Outputs[wanted[i].Inputs.Steps[0]]
		}
	}
	return items, nil
}

// wanted names the outputs that are results, and the places of their runs.
func (e *EndedItems) wanted() (wanted []Wanted, places []int) {
	for i := range e.Runs {
		if run := &e.Runs[i]; run.Status == string(machine.RunDone) {
			wanted = append(wanted, Wanted{Ref: OfRun(run.ID), Inputs: Inputs{Steps: []string{run.OutputStep}}})
			places = append(places, i)
		}
	}
	return wanted, places
}

// cut leaves out all but the first items.
func (e *EndedItems) cut(first int) {
	e.Runs, e.Results, e.AtEnd = e.Runs[:first], e.Results[:first], false
}

// ListRejected returns refused items of a batch behind a place, in order.
func (s *Store) ListRejected(ctx context.Context, batch uuid.UUID, after int32, most int) ([]Rejected, error) {
	rows, err := s.read().ListRejected(ctx, db.ListRejectedParams{BatchID: batch, After: after, Most: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("list refused items: %w", pg.Fault(err))
	}
	return rows, nil
}
