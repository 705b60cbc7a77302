package store

import (
	"bytes"
	"context"
	"fmt"

	"github.com/google/uuid"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store/db"
)

const (
	// InputsMax bounds what a step may be given, in bytes: what fits into a message between services, its frame deducted.
	InputsMax = 31 << 20
	// OutputMax bounds the output of a step, or the items of a fan-out together.
	OutputMax = 8 << 20
)

// Wanted says which documents a claimed step is given.
type Wanted struct {
	Ref
	Inputs
}

// Given are the documents of a claimed step, as JSON. Documents are shared between steps: they must not be changed.
type Given struct {
	// Input is the run's; nil if the step does not refer to it.
	Input []byte
	// Outputs are those of the steps it refers to, by name: of a fan-out step the array of its shards' outputs.
	Outputs map[string][]byte
	// Item is a shard's; nil for a step itself.
	Item []byte
}

// documentKey names a document, or all shards' outputs of a step.
type documentKey struct {
	kind  string
	run   uuid.UUID
	step  string
	shard int32
}

// The kinds of documents, as the queries name them.
const (
	inputKind  = "input"
	outputKind = "output"
	itemKind   = "item"
)

// keys lists the documents that a step is given.
func (w *Wanted) keys() []documentKey {
	var keys []documentKey
	if w.Inputs.Run {
		keys = append(keys, documentKey{kind: inputKind, run: w.RunID, shard: Whole})
	}
	for _, step := range w.Inputs.Steps {
		keys = append(keys, documentKey{kind: outputKind, run: w.RunID, step: step, shard: Whole})
	}
	if w.Shard != Whole {
		keys = append(keys, documentKey{kind: itemKind, run: w.RunID, step: w.Step, shard: int32(w.Shard)})
	}
	return keys
}

// documentQuery collects keys, each once.
func documentQuery(wanted []Wanted) db.ReadDocumentsParams {
	var p db.ReadDocumentsParams
	seen := map[documentKey]bool{}
	for i := range wanted {
		for _, k := range wanted[i].keys() {
			if seen[k] {
				continue
			}
			seen[k] = true
			switch k.kind {
			case inputKind:
				p.InputRuns = append(p.InputRuns, k.run)
			case outputKind:
				p.OutputRuns, p.OutputSteps = append(p.OutputRuns, k.run), append(p.OutputSteps, k.step)
			case itemKind:
				p.ItemRuns, p.ItemSteps = append(p.ItemRuns, k.run), append(p.ItemSteps, k.step)
				p.ItemShards = append(p.ItemShards, k.shard)
			}
		}
	}
	return p
}

// Measure returns how many bytes each of the steps would be given.
func (s *Store) Measure(ctx context.Context, wanted []Wanted) ([]int64, error) {
	return measure(ctx, s.read(), wanted)
}

func measure(ctx context.Context, q *db.Queries, wanted []Wanted) ([]int64, error) {
	rows, err := q.MeasureDocuments(ctx, db.MeasureDocumentsParams(documentQuery(wanted)))
	if err != nil {
		return nil, fmt.Errorf("measure documents: %w", pg.Fault(err))
	}
	sizes := make(map[documentKey]int64, len(rows))
	for _, row := range rows {
		sizes[documentKey{kind: row.Kind, run: row.RunID, step: row.Step, shard: row.Shard}] = row.Bytes
	}
	totals := make([]int64, len(wanted))
	for i := range wanted {
		for _, k := range wanted[i].keys() {
			totals[i] += sizes[k]
		}
	}
	return totals, nil
}

// Give reads the documents that the steps are given.
func (s *Store) Give(ctx context.Context, wanted []Wanted) ([]Given, error) {
	return s.give(ctx, s.read(), wanted)
}

func (s *Store) give(ctx context.Context, q *db.Queries, wanted []Wanted) ([]Given, error) {
	given := make([]Given, len(wanted))
	query := documentQuery(wanted)
	if len(query.InputRuns)+len(query.OutputRuns)+len(query.ItemRuns) == 0 {
		return given, nil
	}
	rows, err := q.ReadDocuments(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("read documents: %w", pg.Fault(err))
	}
	documents, err := s.assemble(rows)
	if err != nil {
		return nil, err
	}
	for i := range wanted {
		given[i] = documents.give(&wanted[i])
	}
	return given, nil
}

// documents are what was read: whole documents, and of fan-out steps the outputs of their shards, in order.
type documents struct {
	whole  map[documentKey]document
	shards map[documentKey][]document
}

// document is one that was read, and the state of what it belongs to.
type document struct {
	status machine.StepStatus
	text   []byte
}

func (s *Store) assemble(rows []db.ReadDocumentsRow) (*documents, error) {
	d := &documents{whole: make(map[documentKey]document, len(rows)), shards: map[documentKey][]document{}}
	for i := range rows {
		row := &rows[i]
		text := row.Document
		if row.Content != nil {
			var err error
			if text, err = s.codec.Unpack(row.Content, int(row.Bytes)); err != nil {
				return nil, fmt.Errorf("run %s, step %q: %w", row.RunID, row.Step, err)
			}
		}
		k := documentKey{kind: row.Kind, run: row.RunID, step: row.Step, shard: row.Shard}
		doc := document{status: machine.StepStatus(row.Status), text: text}
		if row.Kind == outputKind && row.Shard != Whole {
			k.shard = Whole
			d.shards[k] = append(d.shards[k], doc)
			continue
		}
		d.whole[k] = doc
	}
	return d, nil
}

func (d *documents) give(w *Wanted) Given {
	given := Given{Outputs: make(map[string][]byte, len(w.Inputs.Steps))}
	for _, k := range w.keys() {
		switch k.kind {
		case inputKind:
			given.Input = d.whole[k].text
		case outputKind:
			given.Outputs[k.step] = d.output(k)
		case itemKind:
			given.Item = d.whole[k].text
		}
	}
	return given
}

// output is the output of a step: null if it has none, since it was skipped, or failed and the run went on. A fan-out's own
// row has none either: it stands for those of its shards.
func (d *documents) output(k documentKey) []byte {
	switch own := d.whole[k]; {
	case own.status != machine.StepDone:
		return []byte("null")
	case own.text == nil:
		return array(d.shards[k])
	default:
		return own.text
	}
}

// array joins the outputs of shards, which come in order; those that have none are null.
func array(shards []document) []byte {
	size := 2
	for _, s := range shards {
		size += len(s.text) + len("null,")
	}
	joined := bytes.NewBuffer(make([]byte, 0, size))
	joined.WriteByte('[')
	for i, s := range shards {
		if i > 0 {
			joined.WriteByte(',')
		}
		if s.status != machine.StepDone {
			joined.WriteString("null")
			continue
		}
		joined.Write(s.text)
	}
	joined.WriteByte(']')
	return joined.Bytes()
}
