package intake

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/intake/rate"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/apijson"
	"pawl.internal/services/internal/fault"
)

// Admission is how much may be submitted. The first three hold for tenants that have no limit of their own.
type Admission struct {
	SubmitRate    int32 `help:"Submits of a tenant in a minute, over a long time." default:"6000"`
	SubmitBurst   int32 `help:"Submits of a tenant at once, after a pause." default:"1000"`
	MaxQueuedRuns int64 `help:"Runs of a tenant that have not ended." default:"200000"`
	MaxBacklog    int64 `help:"Runs of all tenants together that have not ended." default:"1000000"`
	BatchShare    int   `help:"Share of max-backlog, in percent, above which batch submits are refused and only interactive ones taken." default:"80"`
}

// Validate returns all that is wrong with the configuration.
func (a Admission) Validate() error {
	var problems []error
	if a.SubmitRate < 1 || a.SubmitBurst < 1 || a.MaxQueuedRuns < 1 || a.MaxBacklog < 1 {
		problems = append(problems, errors.New("submit-rate, submit-burst, max-queued-runs and max-backlog must be 1 or more"))
	}
	if a.BatchShare < 1 || a.BatchShare > 100 {
		problems = append(problems, errors.New("batch-share must be 1 to 100"))
	}
	return errors.Join(problems...)
}

// holding are the limits that hold for a tenant.
type holding struct {
	rate, burst int32
	queued      int64
}

// limitsOf fills in what is not set for a tenant.
func (a Admission) limitsOf(own store.Limits) holding {
	holds := holding{rate: a.SubmitRate, burst: a.SubmitBurst, queued: a.MaxQueuedRuns}
	if own.SubmitRate != nil {
		holds.rate = *own.SubmitRate
	}
	if own.SubmitBurst != nil {
		holds.burst = *own.SubmitBurst
	}
	if own.MaxQueuedRuns != nil {
		holds.queued = *own.MaxQueuedRuns
	}
	return holds
}

// The policies by which a submit can be refused, as callers and metrics see them.
const (
	policySubmits = "submits"
	policyQueued  = "queued-runs"
	policyBacklog = "backlog"
	policyShed    = "batch-backlog"
)

const (
	// ratePatience is how long a submit waits for Redis before it is decided without.
	ratePatience = 20 * time.Millisecond
	// queueRetry is after what time it is worth asking again when there is too much queued: runs take seconds.
	queueRetry = 5 * time.Second

	limitHeader  = "ratelimit"
	policyHeader = "ratelimit-policy"
)

// admission decides whether a tenant may submit more, before anything is stored.
type admission struct {
	config  Admission
	rates   *rate.Limiter
	backlog *backlog
	metrics *metrics
}

// admit takes n runs of a class into account, or returns RATE_LIMITED and takes none: when the tenant submits too fast or has
// too many unfinished runs, or when all tenants together do; a batch is refused before anything interactive is. What is
// refused changes nothing. Who is admitted and then stores nothing tells backlog.giveBack; else the next figures of the
// orchestrator do. The answer carries the headers RateLimit and RateLimit-Policy.
func (a *admission) admit(ctx context.Context, who caller, class pawlv1.RunClass, n int) error {
	return a.take(ctx, who, class, n, n)
}

// admitItems is admit for runs that are submitted together, as items of a batch: however many they are, they are one submit.
func (a *admission) admitItems(ctx context.Context, who caller, class pawlv1.RunClass, n int) error {
	return a.take(ctx, who, class, n, 1)
}

func (a *admission) take(ctx context.Context, who caller, class pawlv1.RunClass, n, submits int) error {
	class = classOf(class)
	holds := a.config.limitsOf(who.limits)
	if full := a.backlog.reserve(lane{who.tenant, class}, int64(n), a.config.bounds(holds)); full != nil {
		setLimits(ctx, fmt.Sprintf(`"%s";q=%d;qu="concurrent-requests"`, full.policy, full.limit),
			fmt.Sprintf(`"%s";r=%d;t=%d`, full.policy, max(0, full.limit-full.have), seconds(queueRetry)))
		return a.refuse(who, class, full.policy, queueRetry, full.message(n))
	}
	if err := a.admitRate(ctx, who, class, submits); err != nil {
		a.backlog.giveBack(lane{who.tenant, class}, int64(n))
		return err
	}
	return nil
}

// admitRate is admit for what makes no run, such as a document.
func (a *admission) admitRate(ctx context.Context, who caller, class pawlv1.RunClass, n int) error {
	holds := a.config.limitsOf(who.limits)
	decision := a.rates.Take(ctx, who.tenant, rate.Limit{PerMinute: int(holds.rate), Burst: int(holds.burst)}, n)
	setLimits(ctx, fmt.Sprintf(`"%s";q=%d;w=60`, policySubmits, holds.rate),
		fmt.Sprintf(`"%s";r=%d;t=%d`, policySubmits, decision.Remaining, seconds(decision.Reset)))
	if decision.Allowed {
		return nil
	}
	return a.refuse(who, class, policySubmits, decision.RetryAfter,
		fmt.Sprintf("%d submits a minute and %d at once are allowed", holds.rate, holds.burst))
}

func (a *admission) refuse(who caller, class pawlv1.RunClass, policy string, wait time.Duration, message string) error {
	a.metrics.refusals.WithLabelValues(policy, apijson.WordOf(class)).Inc()
	return fault.New(faultv1.ErrorReason_ERROR_REASON_RATE_LIMITED, "the tenant %s cannot submit this now: %s", who.tenant, message).
		WithRetryAfter(wait).
		WithQuotas(fault.Quota{Policy: policy, Subject: "tenant:" + who.tenant, Message: message})
}

// setLimits tells the caller how the limits stand (IETF RateLimit headers); REST takes them from here.
func setLimits(ctx context.Context, policy, limit string) {
	_ = grpc.SetHeader(ctx, metadata.Pairs(policyHeader, policy, limitHeader, limit)) // only fails when the answer has gone
}

// seconds rounds up: who waits so long has waited long enough.
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }
