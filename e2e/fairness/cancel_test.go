package fairness

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
)

var errEntries = errors.New("a stream has entries")

// BenchmarkCancelOfTenThousand cancels a batch of 10 000 queued runs, and measures how long that takes and what interactive runs
// take meanwhile, against what they take when nothing else is there. Afterwards nothing may be left, and for a minute, and
// after a restart of everything, the provider must see no new request.
func BenchmarkCancelOfTenThousand(b *testing.B) {
	provider := harness.StartProvider(b, "--latency", latency.String())
	system := harness.Start(b, harness.Config{Provider: provider, Concurrency: concurrency})
	people(b, system, 10, 50*time.Millisecond)
	for b.Loop() {
		idle := quantile(people(b, system, 40, 150*time.Millisecond), 0.95)
		batch := system.UploadBatch(pipeline, 10_000, document)
		provider.AwaitInFlight(concurrency)

		began := time.Now()
		require.NoError(b, system.Do(http.MethodPost, "/v1/batches/"+batch+":cancel", "", map[string]any{}).Decode(nil))
		ended := make(chan error, 1)
		var took time.Duration
		go func() {
			err := harness.Await(b.Context(), func() error {
				state, err := system.Batch(batch)
				if err == nil && !state.Ended() {
					err = fmt.Errorf("the batch is %+v", state)
				}
				return err
			})
			took = time.Since(began)
			ended <- err
		}()
		loaded := quantile(people(b, system, 40, 150*time.Millisecond), 0.95)
		require.NoError(b, <-ended)
		b.ReportMetric(took.Seconds(), "cancel-s")
		b.ReportMetric(loaded.Seconds()/idle.Seconds(), "people-ratio")

		requireNothingLeft(b, system, provider, time.Minute)
		before := system.Record()
		system.Terminate()
		system.AwaitEnded(before)
		system.Up()
		requireNothingLeft(b, system, provider, 10*time.Second)
	}
}

// requireNothingLeft checks that nothing can be claimed, no entry is in a stream, and no request is sent for a while.
func requireNothingLeft(b *testing.B, s *harness.System, provider *harness.Provider, watched time.Duration) {
	b.Helper()
	s.AwaitNone("steps can be claimed", `SELECT count(*) FROM core.step_live`)
	for _, stream := range s.Streams() {
		harness.Eventually(b, func() error {
			n, err := s.Redis.Client.XLen(b.Context(), stream).Result()
			if err == nil && n > 0 {
				err = errEntries
			}
			return err
		})
	}
	before := provider.Report().Received
	time.Sleep(watched) // for as long as the promise says
	require.Equal(b, before, provider.Report().Received, "a request was sent after the cancel")
}
