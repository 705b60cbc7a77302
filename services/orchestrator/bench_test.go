package orchestrator_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
)

// BenchmarkSteps measures durable steps per second of runs with three steps, over gRPC and the streams, with runners that
// do nothing else: many runs are unfinished at once, as under load.
func BenchmarkSteps(b *testing.B) {
	const atOnce, lanes = 1000, 4
	r := setup(b)
	r.register(chain)
	runs := (b.N + 2) / 3
	finished := make(chan struct{}, runs)
	ctx, stop := context.WithCancel(b.Context())
	var workers sync.WaitGroup
	for range lanes {
		n := r.newRunner()
		workers.Go(func() {
			for ctx.Err() == nil {
				n.work(ctx, finished)
			}
		})
		workers.Go(func() { _ = clock.Every(ctx, clock.System(), 2*time.Second, func(context.Context) { n.beat() }) })
	}
	b.ResetTimer()
	var created atomic.Int64
	var submitters sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for range 32 {
		submitters.Go(func() {
			for created.Add(1) <= int64(runs) {
				slots <- struct{}{}
				_, err := r.client.CreateRun(b.Context(), r.creation("chain", `{"text": "hello"}`))
				require.NoError(b, err)
			}
		})
	}
	for range runs {
		<-finished
		<-slots
	}
	b.StopTimer()
	stop()
	submitters.Wait()
	workers.Wait()
	b.ReportMetric(float64(3*runs)/b.Elapsed().Seconds(), "steps/s")
}

// work takes what the stream has, up to a batch, and ends it.
func (n *runner) work(ctx context.Context, finished chan<- struct{}) {
	messages, err := n.steps.Read(ctx, n.id.String(), 64, 100*time.Millisecond)
	if err != nil || len(messages) == 0 {
		return
	}
	claims := make([]*systemv1.Claim, len(messages))
	entries := make([]string, len(messages))
	for i, m := range messages {
		ref, err := refOf(m.Fields)
		require.NoError(n.t, err)
		fence := n.ids.V4()
		claims[i], entries[i] = &systemv1.Claim{Step: ref, Fence: fence[:]}, m.ID
	}
	granted, err := n.client.ClaimSteps(n.t.Context(), &systemv1.ClaimStepsRequest{RunnerId: n.id[:], Claims: claims})
	require.NoError(n.t, err)
	outcomes := make([]*systemv1.Outcome, 0, len(claims))
	for i, result := range granted.GetResults() {
		if result.GetStatus() == systemv1.ClaimStatus_CLAIM_STATUS_GRANTED {
			outcomes = append(outcomes, &systemv1.Outcome{
				Step: claims[i].GetStep(), Fence: claims[i].GetFence(), ClaimNo: result.GetAssignment().GetClaimNo(),
				Result: &systemv1.Outcome_Succeeded_{Succeeded: &systemv1.Outcome_Succeeded{Output: []byte(benchOutput)}},
			})
		}
	}
	if len(outcomes) == 0 {
		return
	}
	stored, err := n.client.CompleteSteps(n.t.Context(), &systemv1.CompleteStepsRequest{RunnerId: n.id[:], Outcomes: outcomes})
	require.NoError(n.t, err)
	for i, result := range stored.GetResults() {
		require.Equal(n.t, systemv1.CompleteStatus_COMPLETE_STATUS_STORED, result.GetStatus(), result.GetMessage())
		if outcomes[i].GetStep().GetStep() == "third" {
			finished <- struct{}{}
		}
	}
	require.NoError(n.t, n.steps.Ack(n.t.Context(), entries...))
}

// benchOutput is about as large as a section's fields.
const benchOutput = `{"contract_number":"2026/17","contract_date":"2026-03-01","party_a":"Nord GmbH","party_b":"Ost AG",` +
	`"subject":"delivery of bearings","amount":12500.5,"currency":"EUR","payment_term_days":30,"valid_until":"2027-03-01",` +
	`"governing_law":"German law"}`
