package intake_test

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/intake"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/golden"
	"pawl.internal/services/testkit"
)

const aRun = `{"pipeline":"document_extract","input":{"text":"x"}}`

func admit(change func(*intake.Admission)) option {
	return func(c *intake.Config) { change(&c.Admission) }
}

// send sends a run of acme's under a key.
func (b *bundle) send(t *testing.T, key, body string) answer {
	t.Helper()
	return b.call(t, b.acme, "POST", "/v1/runs", body, "Idempotency-Key: "+key)
}

// awaitBacklog waits until intake knows what the test has told the orchestrator.
func (b *bundle) awaitBacklog(t *testing.T, tenant string, class pawlv1.RunClass, unfinished int64) {
	t.Helper()
	before := b.orchestrator.setBacklog(tenant, class, unfinished)
	require.Eventually(t, func() bool { return b.orchestrator.timesAsked() > before+1 }, patience, 10*time.Millisecond)
}

// TestWhoSubmitsTooFastIsRefused: with the headers and details that tell when to come back; a repeat is answered all the same.
func TestWhoSubmitsTooFastIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, admit(func(a *intake.Admission) { a.SubmitRate, a.SubmitBurst = 1, 2 }))
	var told bytes.Buffer
	for i := range 3 {
		answered := b.send(t, strconv.Itoa(i), aRun)
		fmt.Fprintf(&told, "%d\nRateLimit: %s\nRateLimit-Policy: %s\nRetry-After: %s\n\n", answered.status,
			answered.header.Get("RateLimit"), answered.header.Get("RateLimit-Policy"), answered.header.Get("Retry-After"))
		if answered.status == 429 {
			told.WriteString(answered.body[:bytes.Index([]byte(answered.body), []byte(`"request_id"`))])
		}
	}
	golden.Assert(t, "testdata/refused.golden", told.Bytes())
	require.Equal(t, 429, b.call(t, b.acme, "POST", "/v1/documents", "x", "Content-Type: text/plain", "Idempotency-Key: d").status)

	again := b.send(t, "0", aRun)
	require.Equal(t, 202, again.status, "what was accepted stays accepted: %s", again.body)
	require.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
	require.Equal(t, 422, b.send(t, "0", `{"pipeline":"document_extract","input":{"text":"y"}}`).status)
	require.Len(t, b.orchestrator.created, 2)

	_, err := pawlv1.NewRunServiceClient(b.conn(t)).CreateRun(as(t, b.acme), &pawlv1.CreateRunRequest{
		Pipeline: "document_extract", Input: &pawlv1.JsonValue{Json: `{"text":"x"}`}, IdempotencyKey: "grpc",
	})
	refused := fault.FromStatus(err)
	require.Equal(t, faultv1.ErrorReason_ERROR_REASON_RATE_LIMITED, refused.Reason)
	require.InDelta(t, 60, refused.RetryAfter.Seconds(), 5)
	details := map[string]bool{}
	for _, each := range status.Convert(refused).Details() {
		details[fmt.Sprintf("%T", each)] = true
		if quota, ok := each.(*errdetails.QuotaFailure); ok {
			require.Equal(t, "tenant:acme submits", quota.GetViolations()[0].GetSubject()+" "+quota.GetViolations()[0].GetQuotaId())
		}
	}
	require.Contains(t, details, "*errdetails.QuotaFailure")
	require.Contains(t, details, "*errdetails.RetryInfo")

	require.NotEqual(t, 429, b.call(t, b.rival, "POST", "/v1/documents", "x", "Content-Type: text/plain", "Idempotency-Key: d").status,
		"another tenant has its own")
}

// TestALimitOfTheTenantsOwnHolds: a new one at once at the replica that was told.
func TestALimitOfTheTenantsOwnHolds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.Equal(t, 202, b.send(t, "before", aRun).status)
	operator := b.newKey(t, store.System, store.RoleAdmin)
	change := `{"limits":{"submit_rate":1,"submit_burst":1},"reason":"x"}`
	require.Equal(t, 200, b.call(t, operator, "PATCH", "/v1/tenants/acme", change).status)
	first := b.send(t, "first", aRun)
	require.Equal(t, 202, first.status)
	require.Equal(t, `"submits";q=1;w=60`, first.header.Get("RateLimit-Policy"))
	require.Equal(t, 429, b.send(t, "second", aRun).status)
}

// TestUnfinishedRunsAreLimited: with what the orchestrator counted, and what was admitted since.
func TestUnfinishedRunsAreLimited(t *testing.T) {
	t.Parallel()
	b := setup(t, admit(func(a *intake.Admission) { a.MaxQueuedRuns = 10 }))
	b.awaitBacklog(t, "acme", pawlv1.RunClass_RUN_CLASS_BATCH, 8)
	b.orchestrator.setDeaf(fault.New(faultv1.ErrorReason_ERROR_REASON_UNAVAILABLE, "away")) // the last figures hold
	statuses := map[int]int{}
	for i := range 5 {
		statuses[b.send(t, strconv.Itoa(i), aRun).status]++
	}
	require.Equal(t, map[int]int{202: 2, 429: 3}, statuses)
	refused := b.send(t, "more", aRun)
	require.Equal(t, `"queued-runs";q=10;qu="concurrent-requests"`, refused.header.Get("RateLimit-Policy"))
	require.Equal(t, "5", refused.header.Get("Retry-After"))
	require.Contains(t, refused.body, `"violated-policies":["queued-runs"]`)
	require.Equal(t, 202, b.send(t, "0", aRun).status, "a repeat is answered")

	other := b.call(t, b.rival, "POST", "/v1/documents", "x", "Content-Type: text/plain", "Idempotency-Key: d")
	require.Equal(t, 201, other.status, "another tenant has its own")
}

// TestWhatIsNotStoredDoesNotCount: submits that fail, or repeat others, leave the room that they found.
func TestWhatIsNotStoredDoesNotCount(t *testing.T) {
	t.Parallel()
	b := setup(t, admit(func(a *intake.Admission) { a.MaxQueuedRuns = 2 }))
	b.awaitBacklog(t, "acme", pawlv1.RunClass_RUN_CLASS_INTERACTIVE, 0)
	b.orchestrator.setDeaf(fault.New(faultv1.ErrorReason_ERROR_REASON_UNAVAILABLE, "away"))
	require.Equal(t, 202, b.send(t, "0", aRun).status)
	for range 5 {
		require.Equal(t, 202, b.send(t, "0", aRun).status)
	}
	b.orchestrator.setAway(fault.New(faultv1.ErrorReason_ERROR_REASON_UNAVAILABLE, "away"))
	for range 5 {
		require.Equal(t, 503, b.send(t, "1", aRun).status)
	}
	b.orchestrator.setAway(nil)
	require.Equal(t, 202, b.send(t, "1", aRun).status)
	require.Equal(t, 429, b.send(t, "2", aRun).status)
}

// TestBatchesAreRefusedBeforePeople: above a share of the backlog only interactive runs are taken, and at its end none.
func TestBatchesAreRefusedBeforePeople(t *testing.T) {
	t.Parallel()
	b := setup(t, admit(func(a *intake.Admission) { a.MaxBacklog, a.BatchShare = 100, 80 }))
	const batch = `{"pipeline":"document_extract","input":{"text":"x"},"class":"batch"}`
	b.awaitBacklog(t, "rival", pawlv1.RunClass_RUN_CLASS_BATCH, 79)
	b.orchestrator.setDeaf(fault.New(faultv1.ErrorReason_ERROR_REASON_UNAVAILABLE, "away"))
	require.Equal(t, 202, b.send(t, "b1", batch).status)
	shed := b.send(t, "b2", batch)
	require.Equal(t, 429, shed.status)
	require.Contains(t, shed.body, `"violated-policies":["batch-backlog"]`)
	for i := range 20 {
		require.Equal(t, 202, b.send(t, strconv.Itoa(i), aRun).status, "interactive run %d", i)
	}
	full := b.send(t, "last", aRun)
	require.Equal(t, 429, full.status)
	require.Contains(t, full.body, `"violated-policies":["backlog"]`)
}

// TestSubmitsGoOnWithoutRedis: they are neither refused nor slow, and the rate is limited still.
func TestSubmitsGoOnWithoutRedis(t *testing.T) {
	t.Parallel()
	b := &bundle{orchestrator: newOrchestrator(), gateway: &gateway{}, database: testkit.Postgres(t, store.Schema())}
	redis := testkit.PrivateRedis(t)
	b.redis = testkit.KeysAt(t, redis.URL())
	b.start(t, admit(func(a *intake.Admission) { a.SubmitRate, a.SubmitBurst = 1, 5 }))
	b.acme = b.newKey(t, "acme", store.RoleOperator)
	upload := func(key string) int {
		return b.call(t, b.acme, "POST", "/v1/documents", "x", "Content-Type: text/plain", "Idempotency-Key: "+key).status
	}
	require.Equal(t, 201, upload("with"))
	require.NoError(t, b.redis.Client.FlushAll(t.Context()).Err())
	require.Equal(t, 201, upload("flushed"))
	redis.Kill()
	statuses, began := map[int]int{}, time.Now()
	for i := range 10 {
		statuses[upload(strconv.Itoa(i))]++
	}
	require.Less(t, time.Since(began), 2*time.Second)
	require.Equal(t, map[int]int{201: 5, 429: 5}, statuses)
	require.NoError(t, redis.Start(context.WithoutCancel(t.Context())))
	testkit.Eventually(t, patience, func() error {
		if status := upload("back"); status != 201 { // the bucket in Redis is full again
			return fmt.Errorf("status %d", status)
		}
		return nil
	})
}
