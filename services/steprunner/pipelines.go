package steprunner

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/pipeline"
	"pawl.internal/services/steprunner/repeat"
)

// fetchTimeout bounds one fetch of a pipeline, compilation included.
const fetchTimeout = 10 * time.Second

// pipelines keeps the compiled pipelines that were used last. A stored pipeline never changes, so its digest is its name,
// and each is fetched and compiled once, however many steps wait for it.
type pipelines struct {
	orchestrator systemv1.OrchestratorServiceClient
	compiler     *pipeline.Compiler
	clock        clock.Clock
	size         int
	flight       singleflight.Group

	mu       sync.Mutex
	byDigest map[string]*list.Element // guarded by mu; of *pipelineEntry
	recent   *list.List               // guarded by mu; the one used last is in front
}

type pipelineEntry struct {
	digest   string
	pipeline *pipeline.Compiled
}

func newPipelines(o systemv1.OrchestratorServiceClient, compiler *pipeline.Compiler, clk clock.Clock, size int) *pipelines {
	return &pipelines{
		orchestrator: o, compiler: compiler, clock: clk, size: size, byDigest: map[string]*list.Element{}, recent: list.New(),
	}
}

// get returns the compiled pipeline; while the orchestrator is away it waits.
func (p *pipelines) get(ctx context.Context, tenant string, digest []byte) (*pipeline.Compiled, error) {
	pace := repeat.NewPace(p.clock)
	for {
		if known := p.lookup(string(digest)); known != nil {
			return known, nil
		}
		fetched, err := p.join(ctx, tenant, digest)
		if err == nil || !repeat.Passing(err) {
			return fetched, err
		}
		if err := pace.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

func (p *pipelines) lookup(digest string) *pipeline.Compiled {
	p.mu.Lock()
	defer p.mu.Unlock()
	element := p.byDigest[digest]
	if element == nil {
		return nil
	}
	p.recent.MoveToFront(element)
	entry, _ := element.Value.(*pipelineEntry)
	return entry.pipeline
}

// join fetches the pipeline, or waits for another step's fetch. That one does not end with the step that began it.
func (p *pipelines) join(ctx context.Context, tenant string, digest []byte) (*pipeline.Compiled, error) {
	fetched := p.flight.DoChan(string(digest), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
		defer cancel()
		return p.fetch(ctx, tenant, digest)
	})
	select {
	case result := <-fetched:
		compiled, _ := result.Val.(*pipeline.Compiled)
		return compiled, result.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fetch asks the orchestrator and compiles what it answers.
func (p *pipelines) fetch(ctx context.Context, tenant string, digest []byte) (compiled *pipeline.Compiled, err error) {
	defer func() {
		if panicked := recover(); panicked != nil { // a pipeline must not end the process
			err = fmt.Errorf("compile pipeline: %w", fault.FromPanic(panicked))
		}
	}()
	answer, err := p.orchestrator.GetPipeline(ctx, &systemv1.GetPipelineRequest{
		Tenant: tenant, Selector: &systemv1.GetPipelineRequest_Digest{Digest: digest},
	})
	if err != nil {
		return nil, err
	}
	compiled, err = p.compiler.Compile("", []byte(answer.GetPipeline().GetSource()))
	if err != nil {
		return nil, fmt.Errorf("compile pipeline: %w", err)
	}
	p.keep(string(digest), compiled)
	return compiled, nil
}

// keep adds a pipeline and drops the one that was not used for the longest time when there are too many.
func (p *pipelines) keep(digest string, compiled *pipeline.Compiled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byDigest[digest] != nil {
		return
	}
	p.byDigest[digest] = p.recent.PushFront(&pipelineEntry{digest: digest, pipeline: compiled})
	for p.recent.Len() > p.size {
		entry, _ := p.recent.Remove(p.recent.Back()).(*pipelineEntry)
		delete(p.byDigest, entry.digest)
	}
}
