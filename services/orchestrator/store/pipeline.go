package store

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store/db"
)

// pipelinesKept bounds the compiled pipelines that are kept in memory.
const pipelinesKept = 2000

// Digest names the content of a pipeline: a SHA-256.
type Digest [32]byte

// Pipeline is what the store must know of a stored version. It never changes, and is shared by all runs of the version.
type Pipeline struct {
	Digest        Digest
	Name, Version string
	// Interactive and Batch are the machine's plans; they differ in the deadline of a pipeline that says none.
	Interactive, Batch *machine.Plan
	// Inputs says, for each step of the plans, what it refers to.
	Inputs []StepInputs
	// OutputStep is the step whose output is the run's result.
	OutputStep string
	// NoCalls says that none of the steps asks a model.
	NoCalls bool
	// Callbacks are the events that are sent to the run's callback URL.
	Callbacks []string
	// Labels are those of every run of the pipeline.
	Labels map[string]string
	// Budget is nil without a limit.
	Budget *money.Pico
	// MaxSteps is how many steps of all its runs may be dispatched and not finished at once, and MaxRuns how many runs with
	// equal keys begun and not finished; 0 for no limit.
	MaxSteps, MaxRuns int
}

// StepInputs says which documents the rows of a step refer to: its own, and those of its shards.
type StepInputs struct{ Whole, Shard Inputs }

// Inputs says which documents a step or shard refers to.
type Inputs struct {
	// Run says that it refers to the run's input.
	Run bool
	// Steps are the steps whose outputs it refers to.
	Steps []string
}

// InputsOf returns what a step or shard refers to.
func (p *Pipeline) InputsOf(k machine.Key) Inputs {
	if k.Shard == Whole {
		return p.Inputs[k.Step].Whole
	}
	return p.Inputs[k.Step].Shard
}

// Plan returns the plan for runs of the class.
func (p *Pipeline) Plan(class machine.Class) *machine.Plan {
	if class == machine.Batch {
		return p.Batch
	}
	return p.Interactive
}

// Compile makes of a stored source what the store must know of the pipeline.
type Compile func(source string) (*Pipeline, error)

// pipelines keeps compiled pipelines by digest.
type pipelines struct {
	compile Compile

	mu   sync.RWMutex
	kept map[Digest]*Pipeline // guarded by mu
}

func newPipelines(compile Compile) *pipelines {
	return &pipelines{compile: compile, kept: map[Digest]*Pipeline{}}
}

// known returns the pipeline if it is in memory.
func (p *pipelines) known(digest Digest) *Pipeline {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.kept[digest]
}

// add compiles a stored pipeline and keeps it.
func (p *pipelines) add(digest Digest, source string) (*Pipeline, error) {
	if known := p.known(digest); known != nil {
		return known, nil
	}
	compiled, err := p.compile(source)
	if err != nil {
		return nil, fmt.Errorf("stored pipeline %x: %w", digest, err)
	}
	compiled.Digest = digest // under which its runs know it, whatever this build would make of it
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.kept) >= pipelinesKept {
		for old := range maps.Keys(p.kept) {
			delete(p.kept, old)
			break
		}
	}
	p.kept[digest] = compiled
	return compiled, nil
}

// owned is a digest and a tenant that has stored the pipeline.
type owned struct {
	tenant string
	digest Digest
}

// load returns the pipelines, reading those that are not in memory. A stored one that cannot be compiled is missing in the
// result; its error stands in broken, and fails the events that need it.
func (p *pipelines) load(ctx context.Context, q *db.Queries, wanted map[Digest]owned) (map[Digest]*Pipeline, map[Digest]error, error) {
	found, broken := make(map[Digest]*Pipeline, len(wanted)), map[Digest]error{}
	var tenants []string
	var digests [][]byte
	for digest, w := range wanted {
		if known := p.known(digest); known != nil {
			found[digest] = known
			continue
		}
		tenants, digests = append(tenants, w.tenant), append(digests, digest[:])
	}
	if len(digests) == 0 {
		return found, broken, nil
	}
	rows, err := q.ReadPipelines(ctx, tenants, digests)
	if err != nil {
		return nil, nil, fmt.Errorf("read pipelines: %w", err)
	}
	for _, row := range rows {
		digest := Digest(row.Digest)
		if compiled, err := p.add(digest, row.Source); err != nil {
			broken[digest] = err
		} else {
			found[digest] = compiled
		}
	}
	return found, broken, nil
}
