package intake_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/testkit"
)

// events reads a watch event by event.
type events struct {
	t      *testing.T
	reader *bufio.Reader
}

func (b *bundle) watchREST(t *testing.T, run string, headers ...string) *events {
	t.Helper()
	response := b.open(t, b.acme, "GET", "/v1/runs/"+run+":watch", "", headers...)
	t.Cleanup(func() { response.Body.Close() })
	require.Equal(t, 200, response.StatusCode)
	return &events{t, bufio.NewReader(response.Body)}
}

// next returns the next event's id and name; an empty id at the end.
func (e *events) next() (id, name string) {
	e.t.Helper()
	for {
		line, err := e.reader.ReadString('\n')
		if err != nil {
			require.ErrorIs(e.t, err, io.EOF)
			return "", ""
		}
		if value, ok := strings.CutPrefix(line, "id: "); ok {
			id = strings.TrimSpace(value)
		}
		if value, ok := strings.CutPrefix(line, "event: "); ok {
			name = strings.TrimSpace(value)
		}
		if line == "\n" && id != "" {
			return id, name
		}
	}
}

// publish announces a change as the orchestrator does.
func (b *bundle) publish(t *testing.T, run string) {
	t.Helper()
	require.NoError(t, b.redis.Client.XAdd(t.Context(),
		&redis.XAddArgs{Stream: b.redis.Prefix + ":{events}", Values: []string{"run", run, "kind", "step_done"}}).Err())
}

func (b *bundle) submit(t *testing.T, key string) string {
	t.Helper()
	return b.call(t, b.acme, "POST", "/v1/runs", `{"pipeline":"document_extract","input":{"text":"x"}}`, "Idempotency-Key: "+key).member(t, "run_id")
}

func setStatus(status pawlv1.RunStatus) func(*pawlv1.Run) {
	return func(r *pawlv1.Run) { r.Status = status }
}

func TestWatchersAreWoken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run, other := b.submit(t, "1"), b.submit(t, "2")
	rest := b.watchREST(t, run)
	stream, err := pawlv1.NewRunServiceClient(b.conn(t)).WatchRun(as(t, b.acme), &pawlv1.WatchRunRequest{RunId: run})
	require.NoError(t, err)
	expect := func(tag, name string) {
		t.Helper()
		id, event := rest.next()
		require.Equal(t, [2]string{tag, name}, [2]string{id, event})
		next, err := stream.Recv()
		require.NoError(t, err)
		require.Equal(t, tag, next.GetRun().GetEtag())
	}
	expect("1", "state")
	b.publish(t, other)
	for i := range 3 {
		began := clock.System().Now()
		b.orchestrator.set(run, func(r *pawlv1.Run) { r.StepsDone = int32(i + 1) })
		b.publish(t, run)
		expect(fmt.Sprint(i+2), "state")
		require.Less(t, clock.System().Now().Sub(began), time.Second, "woken, not polled")
	}
	b.orchestrator.set(run, setStatus(pawlv1.RunStatus_RUN_STATUS_DONE))
	b.publish(t, run)
	expect("5", "done")
	id, _ := rest.next()
	require.Empty(t, id)
	_, err = stream.Recv()
	require.ErrorIs(t, err, io.EOF)

	b.orchestrator.set(other, setStatus(pawlv1.RunStatus_RUN_STATUS_CANCELLED))
	id, name := b.watchREST(t, other).next()
	require.Equal(t, [2]string{"2", "done"}, [2]string{id, name}, "a run that has ended is told once")
}

func TestAWatchResumesAfterTheLastEvent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.submit(t, "1")
	id, _ := b.watchREST(t, run).next()
	require.Equal(t, "1", id)
	resumed := b.watchREST(t, run, "Last-Event-ID: 1")
	b.orchestrator.set(run, setStatus(pawlv1.RunStatus_RUN_STATUS_FAILED))
	b.publish(t, run)
	id, name := resumed.next()
	require.Equal(t, [2]string{"2", "done"}, [2]string{id, name})
	ended := b.call(t, b.acme, "GET", "/v1/runs/"+run+":watch", "", "Last-Event-ID: 2")
	require.Equal(t, 204, ended.status)
}

// TestWatchersPollWithoutRedis: nothing is missed while events cannot arrive, nor when they come back.
func TestWatchersPollWithoutRedis(t *testing.T) {
	t.Parallel()
	b := &bundle{orchestrator: newOrchestrator(), gateway: &gateway{}, database: testkit.Postgres(t, store.Schema())}
	server := testkit.PrivateRedis(t)
	b.redis = testkit.KeysAt(t, server.URL())
	b.start(t)
	b.acme = b.newKey(t, "acme", store.RoleOperator)
	_, err := b.orchestrator.addPipeline("acme", "name: document_extract\nversion: v1\nsteps:\n  - {name: s, transform: 1}\n", "test")
	require.NoError(t, err)
	run := b.submit(t, "1")
	watch := b.watchREST(t, run)
	id, _ := watch.next()
	require.Equal(t, "1", id)

	server.Kill()
	b.orchestrator.set(run, setStatus(pawlv1.RunStatus_RUN_STATUS_RUNNING))
	id, _ = watch.next()
	require.Equal(t, "2", id)
	require.NoError(t, server.Start(t.Context()))
	testkit.Eventually(t, patience, func() error { return b.redis.Client.Ping(t.Context()).Err() })
	b.orchestrator.set(run, setStatus(pawlv1.RunStatus_RUN_STATUS_DONE))
	id, name := watch.next()
	require.Equal(t, [2]string{"3", "done"}, [2]string{id, name})
}

// TestAWatchSurvivesTheOrchestrator: it is no news that nobody can say how a run is.
func TestAWatchSurvivesTheOrchestrator(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.submit(t, "1")
	watch := b.watchREST(t, run)
	watch.next()
	b.orchestrator.setAway(fault.Unavailable(errors.New("down"), "away"))
	b.publish(t, run)
	testkit.Eventually(t, patience, func() error {
		if calls := b.orchestrator.taken(); len(calls) < 2 {
			return fmt.Errorf("only %v", calls)
		}
		return nil
	})
	b.orchestrator.setAway(nil)
	b.orchestrator.set(run, setStatus(pawlv1.RunStatus_RUN_STATUS_DONE))
	b.publish(t, run)
	id, _ := watch.next()
	require.Equal(t, "2", id)
}

func TestStoppingEndsWatches(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.submit(t, "1")
	watch := b.watchREST(t, run)
	watch.next()
	stream, err := pawlv1.NewRunServiceClient(b.conn(t)).WatchRun(as(t, b.acme), &pawlv1.WatchRunRequest{RunId: run})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	b.service.Drain(t.Context())
	_, err = stream.Recv()
	require.Equal(t, codes.Unavailable, fault.CodeOf(err), "the client watches at another replica")
	id, _ := watch.next()
	require.Empty(t, id)
}
