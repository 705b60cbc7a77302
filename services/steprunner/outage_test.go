package steprunner_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/testkit"
)

// resume is how soon work must go on after Redis or the orchestrator is back.
const resume = 5 * time.Second

// goesOn submits a step and waits until it is done, not longer than allowed.
func (w *world) goesOn(digest []byte) {
	w.t.Helper()
	began := w.clock.Now()
	w.outcome(w.submit(given{digest: digest, input: `{"n":1}`}))
	require.Less(w.t, w.clock.Now().Sub(began), resume)
	w.clean(interactive)
}

func TestRunnerOutlivesRedis(t *testing.T) {
	t.Parallel()
	server := testkit.PrivateRedis(t)
	w := start(t, onRedis(testkit.KeysAt(t, server.URL())))
	digest := w.pipeline(double)
	w.goesOn(digest)
	for range 3 {
		server.Kill()
		w.ready(false)
		require.NoError(t, server.Start(t.Context()))
		w.ready(true)
		w.goesOn(digest)
	}
}

func TestRunnerOutlivesTheLossOfItsStream(t *testing.T) {
	t.Parallel()
	server := testkit.PrivateRedis(t)
	w := start(t, onRedis(testkit.KeysAt(t, server.URL())))
	w.gateway.set(func(ctx context.Context, _ *systemv1.GenerateRequest, say func(*systemv1.GenerateResponse)) error {
		if err := w.keys.Client.FlushAll(ctx).Err(); err != nil {
			return err
		}
		say(text("done"))
		return nil
	})
	ref := w.submit(given{digest: w.pipeline(ask), input: `{"n":1}`})
	require.NotNil(t, w.outcome(ref).GetSucceeded(), "nothing of the step was in Redis")
	w.goesOn(w.pipeline(double))
}

func TestRunnerOutlivesBrokenConnections(t *testing.T) {
	t.Parallel()
	server := testkit.PrivateRedis(t)
	w := start(t, onRedis(testkit.KeysAt(t, server.URL())))
	digest := w.pipeline(double)
	for range 5 {
		w.goesOn(digest)
		require.NoError(t, w.keys.Client.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err())
	}
}

func TestEntryWhoseDeliveryWasLostIsFound(t *testing.T) {
	t.Parallel()
	server := testkit.PrivateRedis(t)
	w := start(t, onRedis(testkit.KeysAt(t, server.URL())))
	w.beating(1)
	// As if Redis had handed the entry out over a connection that broke: delivered to the runner, which does not know it.
	ref := w.add(given{digest: w.pipeline(double), shard: -1, input: `{"n":1}`})
	key := w.keys.Prefix + ":{steps}:interactive"
	_, err := w.keys.Client.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: asValues(fieldsOf(ref))})
		p.XReadGroup(t.Context(), &redis.XReadGroupArgs{
			Group: "runners", Consumer: w.orchestrator.runner(), Streams: []string{key, ">"}, Count: 1, Block: -1,
		})
		return nil
	})
	require.NoError(t, err)
	require.EqualValues(t, 1, w.pending(interactive))
	require.NoError(t, w.keys.Client.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err())
	w.outcome(ref)
	w.clean(interactive)
}

func asValues(fields map[string]string) map[string]any {
	values := make(map[string]any, len(fields))
	for name, value := range fields {
		values[name] = value
	}
	return values
}

func TestRunnerOutlivesTheOrchestrator(t *testing.T) {
	t.Parallel()
	w := start(t, lasting(time.Second))
	digest := w.pipeline(double)
	w.goesOn(digest)
	w.orchestrator.set(func(o *orchestrator) {
		o.onBeat = away
		o.onFetch = away
		o.onClaim = func(*systemv1.ClaimStepsRequest) error { return away() }
		o.onComplete = func(*systemv1.CompleteStepsRequest) error { return away() }
	})
	other := w.submit(given{digest: w.pipeline(ask), input: `{"n":1}`})
	w.ready(false)
	w.orchestrator.set(func(o *orchestrator) { o.onBeat, o.onFetch, o.onClaim, o.onComplete = nil, nil, nil, nil })
	w.ready(true)
	w.outcome(other)
	w.goesOn(digest)
}

func TestQuestionIsRepeatedWhileTheGatewayIsAway(t *testing.T) {
	t.Parallel()
	w := start(t)
	tries := 0
	w.gateway.set(func(_ context.Context, _ *systemv1.GenerateRequest, say func(*systemv1.GenerateResponse)) error {
		switch tries++; tries {
		case 1, 2:
			return away()
		case 3: // dies in the middle of it
			say(&systemv1.GenerateResponse{News: &systemv1.GenerateResponse_Granted_{Granted: &systemv1.GenerateResponse_Granted{}}})
			return away()
		default:
			say(text("done"))
			return nil
		}
	})
	ref := w.submit(given{digest: w.pipeline(ask), input: `{"n":1}`})
	require.Equal(t, `"done"`, string(w.outcome(ref).GetSucceeded().GetOutput()))
	questions := w.gateway.asked()
	require.Len(t, questions, 4)
	for _, q := range questions {
		require.Equal(t, questions[0].GetMessages()[0].GetContent(), q.GetMessages()[0].GetContent())
		require.Equal(t, questions[0].GetAsk(), q.GetAsk())
	}
	require.Len(t, see(w.orchestrator, func(o *orchestrator) []*systemv1.ClaimStepsRequest { return o.claims }), 1,
		"%d tries are one attempt", tries)
}
