package intake_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/intake"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/testkit"
)

const (
	asLines    = "Content-Type: application/jsonl"
	uploadPath = "/v1/batches:upload?pipeline=document_extract"
)

// roomy lets everything in.
func roomy(c *intake.Config) {
	c.Admission.MaxQueuedRuns, c.Admission.MaxBacklog = 1_000_000, 10_000_000
}

// lines is an upload of n good items.
func lines(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"custom_id":"c%d","input":{"text":"text %d"}}`+"\n", i, i)
	}
	return text.String()
}

func (a answer) count(t *testing.T, name string) int {
	t.Helper()
	var object map[string]any
	require.NoError(t, json.Unmarshal([]byte(a.body), &object), a.body)
	n, _ := object[name].(float64)
	return int(n)
}

func TestABatchInOneRequest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	document := b.call(t, b.acme, "POST", "/v1/documents", "words", asText, "Idempotency-Key: d").member(t, "document_id")
	body := `{"batch":{"pipeline":"document_extract","label":"may","budget_usd":"25","item_budget_usd":"0.5","deadline":"3600s","labels":{"a":"b"}},
		"items":[{"input":{"text":"x"},"entity_id":"e"},{"document_id":"` + document + `","custom_id":"two"},
		{"input":{"text":"y"},"custom_id":"` + strings.Repeat("ü", 200) + `"},{"input":{"text":"z"},"idempotency_key":"own"}]}`
	first := b.call(t, b.acme, "POST", "/v1/batches", body, asJSON, "Idempotency-Key: k")
	require.Equal(t, 202, first.status, first.body)
	id, batch := b.orchestrator.only()
	require.Equal(t, id, first.member(t, "batch_id"))
	require.Equal(t, "/v1/batches/"+id, first.header.Get("Location"))
	require.Equal(t, "1", first.header.Get("Retry-After"))
	require.Equal(t, "running", first.member(t, "status"))
	require.Equal(t, 4, first.count(t, "created"))

	asked := batch.asked
	require.Equal(t, "document_extract:v2", asked.GetPipeline())
	require.Equal(t, pawlv1.RunClass_RUN_CLASS_BATCH, asked.GetClass())
	require.Equal(t, int64(25e12), asked.GetBudgetPicoUsd())
	require.Equal(t, int64(5e11), asked.GetItemBudgetPicoUsd())
	require.Equal(t, time.Hour, asked.GetDeadline().AsDuration())
	require.Regexp(t, "^key:", asked.GetActor())
	keys := map[string]string{}
	for _, item := range batch.runs {
		keys[item.GetIdempotency().GetKey()] = string(item.GetInput())
		require.LessOrEqual(t, len(item.GetIdempotency().GetKey()), 255)
	}
	require.Len(t, keys, 4)
	require.JSONEq(t, `{"text":"x"}`, keys["k/0"])
	require.JSONEq(t, `{"text":"words"}`, keys["k/two"])
	require.JSONEq(t, `{"text":"z"}`, keys["own"])

	again := b.call(t, b.acme, "POST", "/v1/batches", body, asJSON, "Idempotency-Key: k")
	require.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
	require.Equal(t, 4, again.count(t, "duplicates"))
	require.Equal(t, id, again.member(t, "batch_id"))
	other := b.call(t, b.acme, "POST", "/v1/batches", strings.Replace(body, `"x"`, `"X"`, 1), asJSON, "Idempotency-Key: k")
	require.Equal(t, 422, other.status, other.body)
	large := `{"batch":{"pipeline":"document_extract"},"items":[{"input":{"text":"` + strings.Repeat("x", 8<<20) + `"}}]}`
	require.Equal(t, 413, b.call(t, b.acme, "POST", "/v1/batches", large, asJSON, "Idempotency-Key: l").status)
}

// TestUploadsAreReadAsTheyCome: JSON lines have many forms.
func TestUploadsAreReadAsTheyCome(t *testing.T) {
	t.Parallel()
	b := setup(t)
	body := "\ufeff" + `{"input":{"text":"a"}}` + "\r\n\r\n  \n" + `{"input":{"text":"b"},"custom_id":"x"}` + "\n" + `{"input":{"text":"c"}}`
	got := b.call(t, b.acme, "POST", uploadPath+"&label=l&labels=a:b&class=interactive&deadline=60s&mode=all_or_nothing", body,
		"Content-Type: application/x-ndjson", "Idempotency-Key: k")
	require.Equal(t, 202, got.status, got.body)
	_, batch := b.orchestrator.only()
	require.Equal(t, map[string]string{"a": "b"}, batch.asked.GetLabels())
	require.Equal(t, pawlv1.RunClass_RUN_CLASS_INTERACTIVE, batch.asked.GetClass())
	places := map[int32]string{}
	for _, item := range batch.runs {
		places[item.GetIndex()] = item.GetIdempotency().GetKey()
	}
	require.Equal(t, map[int32]string{0: "k/0", 3: "k/x", 4: "k/4"}, places, "a place is a line's number less one")
	for query, field := range map[string]string{
		"&nothing=1": "nothing", "&budget_usd=x": "budget_usd", "&deadline=soon": "deadline", "&labels=a": "labels",
		"&budget_usd=9999999": "budget_usd", "&callback_url=mailto:a@example.com": "callback_url",
	} {
		p := b.call(t, b.acme, "POST", uploadPath+query, lines(1), asLines, "Idempotency-Key: q").problem(t)
		require.Equal(t, 400, p.Status)
		require.Equal(t, field, p.Errors[0].Field)
	}
	require.Equal(t, 415, b.call(t, b.acme, "POST", uploadPath, lines(1), asJSON, "Idempotency-Key: q").status)
	require.Equal(t, "IDEMPOTENCY_KEY_MISSING", b.call(t, b.acme, "POST", uploadPath, lines(1), asLines).problem(t).Reason)
	require.Equal(t, "items", b.call(t, b.acme, "POST", uploadPath, "\n\n", asLines, "Idempotency-Key: q").problem(t).Errors[0].Field)
	require.Equal(t, "PIPELINE_NOT_FOUND",
		b.call(t, b.acme, "POST", "/v1/batches:upload?pipeline=none", lines(1), asLines, "Idempotency-Key: q").problem(t).Reason)
}

// TestI18_BadBatches: every kind of bad item is told with its line and path, and nothing is made of the batch; without it the
// others are made, and it is noted.
func TestI18_BadBatches(t *testing.T) {
	t.Parallel()
	const good = `{"custom_id":"a","input":{"text":"x"}}`
	tests := map[string]struct{ item, field, message, reason string }{
		"no JSON":           {`{"input":`, "line 3", "line 3, column 10", "malformed_body"},
		"not UTF-8":         {"{\"custom_id\":\"\xff\"}", "line 3", "not valid UTF-8", "malformed_body"},
		"unknown field":     {`{"inputs":{}}`, "line 3", "inputs: is not a field here", "invalid_argument"},
		"another type":      {`[1]`, "line 3", "must be an object", "invalid_argument"},
		"too long":          {`{"input":{"text":"` + strings.Repeat("x", 100<<10) + `"}}`, "line 3", "line 3 has more than the 102400 bytes", "body_too_large"},
		"neither":           {`{}`, "line 3: input", "exactly one of input and document_id", "invalid_argument"},
		"both":              {`{"input":{"text":"x"},"document_id":"01890000-0000-7000-8000-00000000ffff"}`, "line 3: input", "exactly one", "invalid_argument"},
		"schema":            {`{"input":{"text":""}}`, "line 3: input.text", "minLength", "input_invalid"},
		"schema, a field":   {`{"input":{}}`, "line 3: input", "missing property 'text'", "input_invalid"},
		"key given twice":   {`{"input":{"text":"x","text":"y"}}`, "line 3: input", "given twice", "input_invalid"},
		"no such document":  {`{"document_id":"01890000-0000-7000-8000-00000000ffff"}`, "line 3: document_id", "does not name a stored document", "document_not_found"},
		"document's id":     {`{"document_id":"seven"}`, "line 3: document_id", "UUID", "invalid_argument"},
		"NUL in its name":   {`{"custom_id":"\u0000","input":{"text":"x"}}`, "line 3: custom_id", "U+0000", "invalid_argument"},
		"same custom_id":    {good, "line 3: custom_id", "an item before this one", "duplicate_custom_id"},
		"the place's name":  {`{"custom_id":"3","input":{"text":"x"}}`, "line 4: custom_id", "or the place", "duplicate_custom_id"},
		"same key":          {`{"idempotency_key":"own","input":{"text":"x"}}`, "line 3: idempotency_key", "an item before this one", "duplicate_custom_id"},
		"key is not a key":  {`{"idempotency_key":"ü","input":{"text":"x"}}`, "line 3: idempotency_key", "ASCII", "invalid_argument"},
		"document too deep": {`{"input":` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + `}`, "line 3", "nested deeper", "malformed_body"},
	}
	b := setup(t)
	first := good + "\n" + `{"idempotency_key":"own","custom_id":"o","input":{"text":"x"}}` + "\n"
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b.orchestrator.taken()
			body := first + tt.item + "\n" + `{"input":{"text":"last"}}` + "\n"
			p := b.call(t, b.acme, "POST", uploadPath, body, asLines, "Idempotency-Key: bad "+name).problem(t)
			require.Equal(t, 400, p.Status, p)
			require.Equal(t, "BATCH_INVALID", p.Reason)
			require.Len(t, p.Errors, 1)
			require.Equal(t, tt.field, p.Errors[0].Field)
			require.Contains(t, p.Errors[0].Message, tt.reason+": ")
			require.Contains(t, p.Errors[0].Message, tt.message)
			for _, call := range b.orchestrator.taken() {
				require.NotContains(t, call, "Batch", "nothing is made")
			}

			key := "Idempotency-Key: skip " + name
			own := strings.ReplaceAll(body, `"own"`, `"own `+name+`"`)
			skipped := b.call(t, b.acme, "POST", uploadPath+"&mode=skip_invalid", own, asLines, key)
			require.Equal(t, 202, skipped.status, skipped.body)
			require.Equal(t, [2]int{3, 1}, [2]int{skipped.count(t, "created"), skipped.count(t, "rejected")}, skipped.body)
			require.Contains(t, skipped.body, `"reason":"`+tt.reason+`"`)
			again := b.call(t, b.acme, "POST", uploadPath+"&mode=skip_invalid", own, asLines, key)
			require.Equal(t, [2]int{3, 1}, [2]int{again.count(t, "duplicates"), again.count(t, "rejected")}, again.body)
		})
	}
}

// TestI05_ABatchCutInTheMiddleIsCompleted: an upload whose connection was cut is repeated, and there is one run for each item.
func TestI05_ABatchCutInTheMiddleIsCompleted(t *testing.T) {
	t.Parallel()
	const n = 5000
	b := setup(t, roomy)
	all := lines(n)
	half := strings.Index(all, `{"custom_id":"c2600"`)
	cut := &cutBody{text: all[:half+9], until: func() bool { return b.added() >= 2000 }}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+uploadPath+"&mode=skip_invalid", cut)
	require.NoError(t, err)
	for name, value := range map[string]string{"Authorization": "Bearer " + b.acme, "Content-Type": "application/jsonl", "Idempotency-Key": "k"} {
		request.Header.Set(name, value)
	}
	_, err = http.DefaultClient.Do(request)
	require.ErrorIs(t, err, errCut)
	id, batch := b.orchestrator.only()
	require.NotNil(t, batch, id)
	require.Equal(t, pawlv1.BatchStatus_BATCH_STATUS_FILLING, batch.batch.GetStatus())
	before := b.added()
	require.Less(t, before, n)

	again := b.call(t, b.acme, "POST", uploadPath+"&mode=skip_invalid", all, asLines, "Idempotency-Key: k")
	require.Equal(t, 202, again.status, again.body)
	require.Equal(t, n, again.count(t, "created")+again.count(t, "duplicates"))
	require.GreaterOrEqual(t, again.count(t, "duplicates"), before)
	require.Equal(t, n, b.added())
	require.Equal(t, pawlv1.BatchStatus_BATCH_STATUS_RUNNING, batch.batch.GetStatus())
	seen := map[int32]bool{}
	for _, item := range batch.runs {
		seen[item.GetIndex()] = true
	}
	require.Len(t, seen, n)
}

// added is how many runs the only batch has.
func (b *bundle) added() int {
	_, batch := b.orchestrator.only()
	b.orchestrator.mu.Lock()
	defer b.orchestrator.mu.Unlock()
	if batch == nil {
		return 0
	}
	return batch.added
}

// TestI05_EqualBatchesAreOne: whoever submits the same at the same time gets the same.
func TestI05_EqualBatchesAreOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var submits sync.WaitGroup
	answers := make([]answer, 100)
	for i := range answers {
		submits.Go(func() {
			answers[i] = b.call(t, b.acme, "POST", "/v1/batches",
				`{"batch":{"pipeline":"document_extract"},"items":[{"input":{"text":"x"}},{"input":{"text":"y"}}]}`, asJSON, "Idempotency-Key: k")
		})
	}
	submits.Wait()
	created := 0
	for _, each := range answers {
		require.Equal(t, 202, each.status, each.body)
		created += each.count(t, "created")
	}
	require.Equal(t, 2, created)
	require.Equal(t, 2, b.added(), "one batch of two runs")
}

// TestAChunkThatIsRefusedEndsTheUpload: the batch stays open, and a repeated upload goes on.
func TestAChunkThatIsRefusedEndsTheUpload(t *testing.T) {
	t.Parallel()
	b := setup(t, roomy)
	b.orchestrator.batches.refuse = 3
	refused := b.call(t, b.acme, "POST", uploadPath, lines(2000), asLines, "Idempotency-Key: k")
	require.Equal(t, 429, refused.status, refused.body)
	_, batch := b.orchestrator.only()
	require.Equal(t, pawlv1.BatchStatus_BATCH_STATUS_FILLING, batch.batch.GetStatus())
	require.Equal(t, 1000, b.added())
	b.orchestrator.mu.Lock()
	b.orchestrator.batches.refuse = 0
	b.orchestrator.mu.Unlock()
	again := b.call(t, b.acme, "POST", uploadPath, lines(2000), asLines, "Idempotency-Key: k")
	require.Equal(t, [2]int{1000, 1000}, [2]int{again.count(t, "created"), again.count(t, "duplicates")}, again.body)
	require.LessOrEqual(t, b.orchestrator.batches.largest, 500)
}

// TestUploadsAreBounded: in items, in room on disk, and in memory.
func TestUploadsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, roomy, func(c *intake.Config) { c.MaxSpoolBytes = 100 << 10 })
	large := b.call(t, b.acme, "POST", uploadPath, lines(5000), asLines, "Idempotency-Key: k")
	require.Equal(t, 413, large.status, large.body)
	_, batch := b.orchestrator.only()
	require.Nil(t, batch)
	require.Equal(t, 202, b.call(t, b.acme, "POST", uploadPath, lines(500), asLines, "Idempotency-Key: k").status, "the room was given back")
}

// TestAnUploadOf100000ItemsFitsInLittleMemory watches the heap while the items pass through.
//
//nolint:paralleltest // the heap is that of the whole process
func TestAnUploadOf100000ItemsFitsInLittleMemory(t *testing.T) {
	const most = 64 << 20
	n := 100_000
	if testkit.RaceDetector {
		n = 10_000
	}
	for _, mode := range []pawlv1.BatchMode{pawlv1.BatchMode_BATCH_MODE_SKIP_INVALID, pawlv1.BatchMode_BATCH_MODE_ALL_OR_NOTHING} {
		b := setup(t, roomy, func(c *intake.Config) { c.MaxSpoolBytes = 1 << 30 })
		b.orchestrator.batches.forgetful = true
		heap := func() uint64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := heap()
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+b.acme)
		stream, err := pawlv1.NewBatchServiceClient(b.conn(t)).UploadBatch(ctx)
		require.NoError(t, err)
		require.NoError(t, stream.Send(&pawlv1.UploadBatchRequest{Part: &pawlv1.UploadBatchRequest_Batch{
			Batch: &pawlv1.BatchHeader{Pipeline: "document_extract", IdempotencyKey: "k", Mode: mode},
		}}))
		item := &pawlv1.UploadBatchRequest{Part: &pawlv1.UploadBatchRequest_Item{
			Item: &pawlv1.BatchItem{Input: &pawlv1.JsonValue{Json: `{"text":"` + strings.Repeat("x", 400) + `"}`}},
		}}
		var peak uint64
		for i := range n {
			require.NoError(t, stream.Send(item))
			if i%(n/4) == 0 {
				peak = max(peak, heap())
			}
		}
		answer, err := stream.CloseAndRecv()
		require.NoError(t, err)
		require.Equal(t, int32(n), answer.GetCreated())
		peak = max(peak, heap())
		t.Logf("%s: %d KiB more than the %d KiB before", mode, (int64(peak)-int64(before))>>10, before>>10)
		require.Less(t, int64(peak)-int64(before), int64(most), mode)
		b.stop()
	}
}

// TestBatchesAreAdmittedByChunks: a tenant's limit of unfinished runs holds for items, and what is in the way is told.
func TestBatchesAreAdmittedByChunks(t *testing.T) {
	t.Parallel()
	b := setup(t, admit(func(a *intake.Admission) { a.MaxQueuedRuns = 1200 }))
	b.awaitBacklog(t, "acme", pawlv1.RunClass_RUN_CLASS_BATCH, 0)
	b.orchestrator.setDeaf(fault.New(faultv1.ErrorReason_ERROR_REASON_UNAVAILABLE, "away")) // the last figures hold
	const small = `{"batch":{"pipeline":"document_extract"},"items":[{"input":{"text":"x"}}]}`
	require.Equal(t, 202, b.call(t, b.acme, "POST", "/v1/batches", small, asJSON, "Idempotency-Key: small").status)
	refused := b.call(t, b.acme, "POST", uploadPath, lines(1500), asLines, "Idempotency-Key: k")
	require.Equal(t, 429, refused.status, refused.body)
	require.NotEmpty(t, refused.header.Get("Retry-After"))
	require.Contains(t, refused.body, `"violated-policies":["queued-runs"]`)
	require.Len(t, b.orchestrator.batches.order, 2)
	large := b.orchestrator.batches.made[b.orchestrator.batches.order[1]]
	require.Equal(t, 1000, large.added, "the chunks before it stay")
	require.Equal(t, pawlv1.BatchStatus_BATCH_STATUS_FILLING, large.batch.GetStatus())
	b.orchestrator.setDeaf(nil)
	b.awaitBacklog(t, "acme", pawlv1.RunClass_RUN_CLASS_BATCH, 1200)
	again := b.call(t, b.acme, "POST", "/v1/batches", small, asJSON, "Idempotency-Key: small")
	require.Equal(t, 202, again.status, "a repeat is answered: %s", again.body)
}

func TestUploadOverGRPC(t *testing.T) {
	t.Parallel()
	b := setup(t)
	header := &pawlv1.UploadBatchRequest{Part: &pawlv1.UploadBatchRequest_Batch{
		Batch: &pawlv1.BatchHeader{Pipeline: "document_extract", IdempotencyKey: "k"},
	}}
	item := func(index *int32) *pawlv1.UploadBatchRequest {
		return &pawlv1.UploadBatchRequest{Index: index, Part: &pawlv1.UploadBatchRequest_Item{
			Item: &pawlv1.BatchItem{Input: &pawlv1.JsonValue{Json: `{"text":"x"}`}},
		}}
	}
	for name, tt := range map[string]struct {
		send []*pawlv1.UploadBatchRequest
		want string
	}{
		"no header":      {[]*pawlv1.UploadBatchRequest{item(nil)}, "batch: must be the first message"},
		"nothing":        {nil, "batch: must be the first message"},
		"header twice":   {[]*pawlv1.UploadBatchRequest{header, header}, "batch: is given twice"},
		"going back":     {[]*pawlv1.UploadBatchRequest{header, item(proto.Int32(7)), item(proto.Int32(7))}, "index: must be 8 or more"},
		"no items":       {[]*pawlv1.UploadBatchRequest{header}, "items: must contain at least 1 item"},
		"empty message":  {[]*pawlv1.UploadBatchRequest{header, {}}, "exactly one field is required"},
		"negative place": {[]*pawlv1.UploadBatchRequest{header, item(proto.Int32(-1))}, "greater than or equal to 0"},
	} {
		stream, err := pawlv1.NewBatchServiceClient(b.conn(t)).UploadBatch(as(t, b.acme))
		require.NoError(t, err)
		for _, each := range tt.send {
			_ = stream.Send(each) // a refused stream ends early
		}
		_, err = stream.CloseAndRecv()
		require.ErrorContains(t, err, tt.want, name)
		require.Equal(t, codes.InvalidArgument, fault.CodeOf(err), name)
	}
	_, batch := b.orchestrator.only()
	require.Nil(t, batch)
}

func TestBatchesAreReadAndDecidedAbout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.call(t, b.acme, "POST", uploadPath, lines(1), asLines, "Idempotency-Key: k")
	id, _ := b.orchestrator.only()
	got := b.call(t, b.acme, "GET", "/v1/batches/"+id, "")
	require.Equal(t, id, got.member(t, "batch_id"), got.body)
	require.Equal(t, `"1"`, got.header.Get("ETag"))
	require.Equal(t, 200, b.call(t, b.acme, "GET", "/v1/batches/"+id, "", `If-None-Match: "1"`).status, "counts change under one etag")
	list := b.call(t, b.acme, "GET", "/v1/batches?page_size=2000", "")
	require.Contains(t, list.body, id)
	b.call(t, b.acme, "GET", "/v1/batches?page_token="+list.member(t, "next_page_token"), "")
	require.Contains(t, b.orchestrator.taken(), "ListBatches 50more")

	viewer, client := b.newKey(t, "acme", store.RoleViewer), b.newKey(t, "acme", store.RoleClient)
	verbs := []struct{ verb, body, role string }{
		{"cancel", `{"reason":"r","etag":"\"1\""}`, client},
		{"pause", `{}`, b.acme},
		{"resume", `{}`, b.acme},
		{"retry_failed", `{"reason":"r","only_reason":"timeout","item_budget_usd":"0.5"}`, b.acme},
	}
	for _, v := range verbs {
		path := "/v1/batches/" + id + ":" + v.verb
		require.Equal(t, 403, b.call(t, viewer, "POST", path, v.body, asJSON).status, v.verb)
		if v.role != client {
			require.Equal(t, 403, b.call(t, client, "POST", path, v.body, asJSON).status, v.verb)
		}
		require.Equal(t, "BATCH_NOT_FOUND", b.call(t, b.rival, "POST", path, v.body, asJSON).problem(t).Reason)
		require.Equal(t, id, b.call(t, v.role, "POST", path, v.body, asJSON).member(t, "batch_id"))
	}
	require.Len(t, b.orchestrator.batches.decided, 4)
	require.Regexp(t, `^BATCH_VERB_CANCEL by key:\w+ for "r" at "1": "" 0$`, b.orchestrator.batches.decided[0])
	require.Regexp(t, `^BATCH_VERB_RETRY_FAILED by key:\w+ for "r" at "": "timeout" 500000000000$`, b.orchestrator.batches.decided[3])
	bad := b.call(t, b.acme, "POST", "/v1/batches/"+id+":retry_failed", `{"reason":"r","item_budget_usd":"9999999"}`, asJSON)
	require.Equal(t, "item_budget_usd", bad.problem(t).Errors[0].Field)
	require.Equal(t, 403, b.call(t, viewer, "POST", uploadPath, lines(1), asLines, "Idempotency-Key: v").status)
}
