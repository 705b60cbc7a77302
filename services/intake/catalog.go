package intake

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/pipeline"
)

const (
	// newestTTL is how long a pipeline's newest version is taken for the newest, and so how long after a registration at
	// another replica a run may still get the version before.
	newestTTL = time.Second
	// maxPipelines bounds the versions that are kept; a pipeline that is compiled takes some 100 KiB.
	maxPipelines = 1000
)

// catalog finds pipelines by name and keeps them compiled, so that checking an input costs no call. A version never
// changes, so it is kept until there are too many.
type catalog struct {
	orchestrator systemv1.OrchestratorServiceClient
	compiler     *pipeline.Compiler
	clock        clock.Clock

	loads singleflight.Group

	mu       sync.Mutex
	versions map[pipelineKey]*registered // guarded by mu; by name:version
	newest   map[pipelineKey]newest      // guarded by mu; by name
}

// pipelineKey is what a tenant calls a pipeline.
type pipelineKey struct{ tenant, name string }

// registered is a stored version, compiled.
type registered struct {
	// ref is name:version.
	ref      string
	compiled *pipeline.Compiled
}

type newest struct {
	version *registered
	until   time.Time
}

func newCatalog(
	orchestrator systemv1.OrchestratorServiceClient, compiler *pipeline.Compiler, c clock.Clock,
) *catalog {
	return &catalog{
		orchestrator: orchestrator, compiler: compiler, clock: c,
		versions: map[pipelineKey]*registered{}, newest: map[pipelineKey]newest{},
	}
}

// find returns a version by name:version, or the newest by name.
func (c *catalog) find(ctx context.Context, tenant, name string) (*registered, error) {
	key := pipelineKey{tenant, name}
	if known := c.recall(key); known != nil {
		return known, nil
	}
	loaded, err, _ := c.loads.Do(tenant+"\x00"+name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTime)
		defer cancel()
		return c.load(ctx, key)
	})
	if err != nil {
		return nil, err
	}
	version, _ := loaded.(*registered)
	return version, nil
}

func (c *catalog) recall(key pipelineKey) *registered {
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.Contains(key.name, ":") {
		return c.versions[key]
	}
	if known, ok := c.newest[key]; ok && c.clock.Now().Before(known.until) {
		return known.version
	}
	return nil
}

func (c *catalog) load(ctx context.Context, key pipelineKey) (*registered, error) {
	found, err := c.orchestrator.GetPipeline(ctx, &systemv1.GetPipelineRequest{
		Tenant: key.tenant, Selector: &systemv1.GetPipelineRequest_Name{Name: key.name},
	})
	if err != nil {
		return nil, namePipeline(err)
	}
	stored := found.GetPipeline()
	ref := stored.GetName() + ":" + stored.GetVersion()
	version := c.recall(pipelineKey{key.tenant, ref})
	if version == nil {
		compiled, err := c.compiler.Compile("", []byte(stored.GetSource()))
		if err != nil { // it compiled when it was registered
			return nil, fault.Internal(err)
		}
		version = &registered{ref: ref, compiled: compiled}
	}
	c.remember(key, version)
	return version, nil
}

func (c *catalog) remember(key pipelineKey, version *registered) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.versions) >= maxPipelines {
		clear(c.versions)
		clear(c.newest)
	}
	c.versions[pipelineKey{key.tenant, version.ref}] = version
	if key.name != version.ref {
		c.newest[key] = newest{version: version, until: c.clock.Now().Add(newestTTL)}
	}
}

// forget makes the next find of the name look for a newer version.
func (c *catalog) forget(tenant, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.newest, pipelineKey{tenant, name})
}

// namePipeline says which part of the request names a pipeline that does not exist.
func namePipeline(err error) error {
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Reason == faultv1.ErrorReason_ERROR_REASON_PIPELINE_NOT_FOUND {
		return f.WithViolations(fault.Violation{Field: "pipeline", Message: "does not name a stored pipeline"})
	}
	return err
}
