package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/canon"
	"pawl.internal/services/internal/expr"
	"pawl.internal/services/internal/retry"
)

// maxDuration bounds every duration of a pipeline.
const maxDuration = 90 * 24 * time.Hour

// The defaults of a step.
const (
	defaultConcurrency   = 8
	defaultMaxLost       = 3
	defaultMaxCalls      = 8
	defaultFallbackAfter = 1
	defaultLLMTimeout    = 120 * time.Second
	defaultMaxAttempts   = 3
	defaultRetryInitial  = 5 * time.Second
	defaultRetryFactor   = 3
	defaultRetryMax      = 60 * time.Second
	defaultRetryJitter   = 0.2
	// softMargin is how much longer the soft timeout must be than the model calls that it allows, softSlack how much
	// longer it is by default; hardSlack is the same for the hard timeout after the soft one.
	softMargin = time.Second
	softSlack  = 50 * time.Second
	hardSlack  = 10 * time.Second
)

// step compiles a step, and gives the shape of its output.
func (b *build) step(i int) (*Step, *expr.Shape) {
	spec := b.doc.spec.GetSteps()[i]
	where := path{"steps", i}
	s := &Step{
		Index:         i,
		Name:          spec.GetName(),
		Needs:         b.graph.needs[i],
		Concurrency:   int(orDefault(spec.Concurrency, defaultConcurrency)),
		MaxLost:       int(orDefault(spec.MaxLost, defaultMaxLost)),
		MaxCalls:      int(orDefault(spec.MaxCalls, defaultMaxCalls)),
		FallbackAfter: int(orDefault(spec.FallbackAfter, defaultFallbackAfter)),
		Repairs:       int(spec.GetRepair().GetAttempts()),
		OnError:       orWord(spec.GetOnError(), "fail"),
		OnAmbiguous:   orWord(spec.GetOnAmbiguous(), "retry"),
		ReviewReason:  orWord(spec.GetReview().GetReason(), "low_confidence"),
		Editable:      slices.Clone(spec.GetReview().GetEditable()),
		where:         where,
	}
	names := b.names(b.graph.before[i], spec.GetName())
	b.head(s, names)
	if s.FanOut {
		names.Item = &expr.Shape{}
		if s.forEach != nil {
			names.Item = s.forEach.Shape().Item()
		}
	}
	output := b.body(s, spec, names)
	b.reviewed(s, names, output)
	b.onlyWhereItMatters(s)
	s.Timeouts = b.timeouts(s)
	s.Retry = b.retry(where.then("retry"), spec.GetRetry())
	return s, outputShape(s, output)
}

// head compiles what is evaluated before the work: when, require, for_each.
func (b *build) head(s *Step, names expr.Names) {
	s.FanOut = b.has(s.where.then("for_each"))
	s.when = b.expression(s.where.then("when"), names, expr.Bool)
	s.require = b.expression(s.where.then("require"), names, expr.Bool)
	s.forEach = b.expression(s.where.then("for_each"), names, expr.List)
	for _, x := range []*expr.Expr{s.when, s.require, s.forEach} {
		if x != nil {
			s.HeadRefs = s.HeadRefs.Union(x.Refs())
		}
	}
}

// body compiles the work, and gives the shape of its output.
func (b *build) body(s *Step, spec *pawlv1.Step, names expr.Names) *expr.Shape {
	switch spec.GetKind().(type) {
	case *pawlv1.Step_Llm:
		return b.llm(s, names)
	case *pawlv1.Step_Transform:
		s.Kind = Transform
		s.transform = b.value(s.where.then("transform"), names)
		s.BodyRefs = s.transform.refs()
		return s.transform.shape()
	case *pawlv1.Step_Validate:
		return b.validation(s, spec.GetValidate(), names)
	default: // reported by the schema's rules
		return &expr.Shape{}
	}
}

func (b *build) reviewed(s *Step, names expr.Names, output *expr.Shape) {
	names.Output = output
	s.review = b.expression(s.where.then("review", "when"), names, expr.Bool)
	if s.review != nil {
		s.BodyRefs = s.BodyRefs.Union(s.review.Refs())
	}
}

// onlyWhereItMatters reports settings that would change nothing.
func (b *build) onlyWhereItMatters(s *Step) {
	if at := s.where.then("concurrency"); b.has(at) && !s.FanOut {
		b.fail(at, "matters only with for_each")
	}
	if s.Kind == LLM || s.Kind == "" {
		return
	}
	for _, setting := range []string{"llm_timeout", "repair", "max_calls", "fallback_after", "on_ambiguous"} {
		if at := s.where.then(setting); b.has(at) {
			b.fail(at, "matters only in an llm step, and this is a %s step", s.Kind)
		}
	}
}

// outputShape is what other steps know of a step's output.
func outputShape(s *Step, output *expr.Shape) *expr.Shape {
	if s.FanOut {
		return expr.ListOf(output)
	}
	return output
}

func (b *build) timeouts(s *Step) Timeouts {
	var t Timeouts
	if s.Kind == LLM {
		t.LLM = b.durationOr(s.where.then("llm_timeout"), defaultLLMTimeout)
	}
	asks := 1 + s.Repairs
	calls := t.LLM * time.Duration(asks)
	t.Soft = b.durationOr(s.where.then("soft_timeout"), calls+softSlack)
	t.Hard = b.durationOr(s.where.then("hard_timeout"), t.Soft+hardSlack)
	if least := calls + softMargin; t.Soft < least && s.Kind == LLM {
		b.fail(s.where.then("soft_timeout"), "%s is too short: it must be at least llm_timeout × (1 + repair.attempts) + 1s, which is %s × %d + 1s = %s",
			t.Soft, t.LLM, asks, least)
	}
	if t.Hard <= t.Soft {
		b.fail(s.where.then("hard_timeout"), "%s is too short: it must be longer than soft_timeout, which is %s", t.Hard, t.Soft)
	}
	return t
}

func (b *build) retry(where path, spec *pawlv1.RetryPolicy) retry.Policy {
	if spec == nil {
		spec = &pawlv1.RetryPolicy{}
	}
	policy := retry.Policy{
		MaxAttempts: int(orDefault(spec.MaxAttempts, defaultMaxAttempts)),
		Initial:     b.durationOr(where.then("initial"), defaultRetryInitial),
		Factor:      orDefault(spec.Factor, defaultRetryFactor),
		Jitter:      orDefault(spec.Jitter, defaultRetryJitter),
	}
	policy.Max = b.durationOr(where.then("max"), max(defaultRetryMax, policy.Initial))
	if policy.Max < policy.Initial {
		b.fail(where.then("max"), "%s is shorter than initial, which is %s", policy.Max, policy.Initial)
	}
	return policy
}

// durationOr gives a duration, or the default where there is none or it has problems.
func (b *build) durationOr(where path, otherwise time.Duration) time.Duration {
	if d, ok := b.duration(where); ok {
		return d
	}
	return otherwise
}

// duration reads a duration such as 90s or 1h30m.
func (b *build) duration(where path) (time.Duration, bool) {
	if !b.has(where) {
		return 0, false
	}
	written := b.doc.root.find(where).value
	d, err := time.ParseDuration(written)
	switch {
	case err != nil:
		b.fail(where, "%q is not a duration; write something like 90s, 10m or 1h30m", written)
	case d <= 0:
		b.fail(where, "must be longer than zero, and is %s", written)
	case d < time.Millisecond || d > maxDuration:
		b.fail(where, "must be from 1ms to %dh, and is %s", maxDuration/time.Hour, written)
	default:
		return d, true
	}
	return 0, false
}

// promptVersion identifies a block of the source by its content.
func promptVersion(n *node) string {
	canonical, err := canon.JSON(n.appendJSON(nil))
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:8])
}

func orDefault[T any](given *T, otherwise T) T {
	if given == nil {
		return otherwise
	}
	return *given
}

func orWord(given, otherwise string) string {
	if given == "" {
		return otherwise
	}
	return given
}
