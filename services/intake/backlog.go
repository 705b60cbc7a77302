package intake

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/apijson"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
)

const (
	// backlogEvery is how often the figures are asked for.
	backlogEvery = time.Second
	percent      = 100
)

// backlog knows how many runs have not ended: by the orchestrator's figures of a second ago, and what this replica has
// admitted since. What other replicas admit meanwhile it learns with the next figures, so limits may be exceeded by that
// much. While the orchestrator is away the last figures hold; before the first ones nothing is refused.
type backlog struct {
	orchestrator systemv1.OrchestratorServiceClient
	clock        clock.Clock
	log          *slog.Logger
	metrics      *metrics
	// failing is whether the last question went wrong; only run uses it.
	failing bool

	mu      sync.Mutex
	known   bool           // guarded by mu
	figures map[lane]int64 // guarded by mu; as the orchestrator told
	since   map[lane]int64 // guarded by mu; admitted here and not in the figures yet
	total   int64          // guarded by mu; the sum of both
}

// lane is a class of a tenant's runs.
type lane struct {
	tenant string
	class  pawlv1.RunClass
}

// bounds are the most unfinished runs: of the tenant, of all, and of all for another batch.
type bounds struct{ tenant, total, batch int64 }

// bounds of a tenant with these limits.
func (a Admission) bounds(holds holding) bounds {
	return bounds{tenant: holds.queued, total: a.MaxBacklog, batch: a.MaxBacklog / percent * int64(a.BatchShare)}
}

// full is a limit that would be exceeded.
type full struct {
	policy      string
	have, limit int64
}

func (f *full) message(n int) string {
	whose := map[string]string{
		policyQueued:  "it has %d unfinished runs, and with %d more there would be more than the %d allowed",
		policyBacklog: "there are %d unfinished runs of all tenants, and with %d more there would be more than the %d that the system takes",
		policyShed:    "there are %d unfinished runs of all tenants, and with %d more there would be more than the %d up to which batches are taken",
	}
	return fmt.Sprintf(whose[f.policy], f.have, n, f.limit)
}

func newBacklog(o systemv1.OrchestratorServiceClient, c clock.Clock, log *slog.Logger, m *metrics) *backlog {
	return &backlog{orchestrator: o, clock: c, log: log, metrics: m, figures: map[lane]int64{}, since: map[lane]int64{}}
}

// reserve counts n runs as admitted, or says which limit is in the way.
func (b *backlog) reserve(l lane, n int64, most bounds) *full {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known {
		own, total := b.own(l.tenant), b.total
		switch {
		case own+n > most.tenant:
			return &full{policyQueued, own, most.tenant}
		case total+n > most.total:
			return &full{policyBacklog, total, most.total}
		case l.class == pawlv1.RunClass_RUN_CLASS_BATCH && total+n > most.batch:
			return &full{policyShed, total, most.batch}
		}
	}
	b.add(l, n)
	return nil
}

// giveBack takes back what was reserved and not stored.
func (b *backlog) giveBack(l lane, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(l, -n)
}

// add changes what was admitted since the figures. b.mu is held.
func (b *backlog) add(l lane, n int64) {
	b.total += n
	if b.since[l] += n; b.since[l] == 0 {
		delete(b.since, l)
	}
}

// own is the unfinished runs of a tenant. b.mu is held.
func (b *backlog) own(tenant string) int64 {
	sum := int64(0)
	for _, class := range classes() {
		l := lane{tenant, class}
		sum += b.figures[l] + b.since[l]
	}
	return sum
}

// classes lists the classes of runs.
func classes() []pawlv1.RunClass {
	return []pawlv1.RunClass{pawlv1.RunClass_RUN_CLASS_INTERACTIVE, pawlv1.RunClass_RUN_CLASS_BATCH}
}

// run asks for the figures until ctx ends.
func (b *backlog) run(ctx context.Context) {
	_ = clock.Every(ctx, b.clock, backlogEvery, func(ctx context.Context) { // only ends with ctx
		err := b.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !b.failing {
			b.log.WarnContext(ctx, "the backlog is not known; the last figures hold", "error", err)
		}
		b.failing = err != nil
		b.metrics.backlogStale.Set(flag(b.failing))
	})
}

// ask replaces the figures. What was admitted before the question is in the answer; what is admitted while it is under way may
// not be.
func (b *backlog) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	asked := b.admitted()
	answer, err := b.orchestrator.GetBacklog(ctx, &systemv1.GetBacklogRequest{})
	if fault.CodeOf(err) == codes.Unimplemented { // the orchestrator is an older one, and has none
		b.forget()
		return nil
	}
	if err != nil {
		return err
	}
	b.learn(answer, asked)
	return nil
}

func (b *backlog) admitted() map[lane]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.since)
}

func (b *backlog) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known, b.total = false, 0
	clear(b.figures)
	clear(b.since)
}

func (b *backlog) learn(answer *systemv1.GetBacklogResponse, asked map[lane]int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known = true
	clear(b.figures)
	for _, each := range answer.GetBacklog() {
		b.figures[lane{each.GetTenant(), classOf(each.GetClass())}] += each.GetUnfinished()
	}
	for l, n := range asked {
		b.add(l, -n)
	}
	b.total = 0
	byClass := map[pawlv1.RunClass]int64{}
	for l, n := range b.figures {
		b.total += n
		byClass[l.class] += n
	}
	for _, n := range b.since {
		b.total += n
	}
	for _, class := range classes() {
		b.metrics.backlog.WithLabelValues(apijson.WordOf(class)).Set(float64(byClass[class]))
	}
}

// flag is a gauge's value for yes and no.
func flag(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
