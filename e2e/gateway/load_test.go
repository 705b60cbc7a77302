package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"pawl.internal/e2e/harness"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// models is a models file with one account and the given limits, in YAML's flow form.
func models(p *harness.Provider, limits string) string {
	return fmt.Sprintf(`
providers:
  - {name: main, kind: openai, base_url: %s/v1, api_key_env: PAWL_E2E_KEY, limit_group: account}
limits:
  account: {%s}
routes:
  default:
    - {provider: main, model: sim-small}
prices:
  - {provider: main, model: sim-small, from: 2026-01-01, input: "0.50", cached_input: "0.05", output: "2.00"}
`, p.URL, limits)
}

// load is questions that are asked by so many askers at once, spread over the replicas.
type load struct {
	gateways *harness.Gateways
	askers   int
	// pause says how long an asker waits after a failure that passes; nil does not ask again.
	pause func(f *systemv1.CallFailure, failures int) time.Duration

	mu      sync.Mutex
	answers []time.Time
	failed  []*systemv1.CallFailure
}

// ask asks all questions and returns when each has its last word.
func (l *load) ask(ctx context.Context, questions []harness.Question) error {
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for i := range l.askers {
		replica := l.gateways.All[i%len(l.gateways.All)]
		group.Go(func() error {
			for n := next.Add(1) - 1; n < int64(len(questions)); n = next.Add(1) - 1 {
				if err := l.one(ctx, replica, questions[n]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// one asks a question until it is answered, has failed for good, or is not to be asked again.
func (l *load) one(ctx context.Context, replica *harness.Gateway, q harness.Question) error {
	request := q.Request()
	for failures := 1; ; failures++ {
		answer, failed, err := replica.Ask(ctx, request)
		if err != nil {
			return err
		}
		passes := failed != nil && (failed.GetClass() == systemv1.Outcome_FAILURE_CLASS_TRANSIENT || failed.GetPark())
		if answer != nil || !passes || l.pause == nil {
			l.note(failed)
			return nil
		}
		select {
		case <-time.After(l.pause(failed, failures)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *load) note(failed *systemv1.CallFailure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if failed != nil {
		l.failed = append(l.failed, failed)
		return
	}
	l.answers = append(l.answers, time.Now())
}

// backoff is what the state machine does: a stated wait is kept, and none is exact.
func backoff(f *systemv1.CallFailure, failures int) time.Duration {
	wait := f.GetRetryAfter().AsDuration()
	if wait == 0 {
		wait = min(time.Second<<(failures-1), 30*time.Second)
	}
	return wait + rand.N(wait/4+time.Second) //nolint:gosec // jitter
}

// repeated is n times the same question; each time it belongs to another run.
func repeated(q harness.Question, n int) []harness.Question {
	return slices.Repeat([]harness.Question{q}, n)
}

// busiest is the most requests that the provider received in any window of the length.
func busiest(requests []simulated.Record, window time.Duration) int {
	var times []time.Time
	for _, r := range requests {
		times = append(times, r.ReceivedAt)
	}
	slices.SortFunc(times, time.Time.Compare)
	most, first := 0, 0
	for i, at := range times {
		for at.Sub(times[first]) >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
