package orchestrator_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
)

func version(v int) string {
	return strings.Replace(chain, "version: v1", fmt.Sprintf("version: v%d", v), 1)
}

func TestPipelineVersionNeverChanges(t *testing.T) {
	t.Parallel()
	r := setup(t)
	create := func(tenant, source string) (*systemv1.CreatePipelineResponse, error) {
		return r.client.CreatePipeline(t.Context(), &systemv1.CreatePipelineRequest{Tenant: tenant, Source: source, CreatedBy: "person:ann"})
	}
	first, err := create(tenant, chain)
	require.NoError(t, err)
	require.True(t, first.GetCreated())
	stored := first.GetPipeline()
	require.Equal(t, "chain", stored.GetName())
	require.Equal(t, "v1", stored.GetVersion())
	require.Equal(t, []string{"first", "second", "third"}, stored.GetSteps())
	require.Equal(t, chain, stored.GetSource())
	require.Equal(t, "person:ann", stored.GetCreatedBy())
	require.NotNil(t, stored.GetCreatedAt())

	again, err := create(tenant, "# a comment is no content\n"+chain)
	require.NoError(t, err)
	require.False(t, again.GetCreated())
	require.Equal(t, stored.GetDigest(), again.GetPipeline().GetDigest())
	require.Equal(t, chain, again.GetPipeline().GetSource(), "as it was registered first")

	_, err = create(tenant, strings.Replace(chain, "${input.text}", "${input.other}", 1))
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_PIPELINE_EXISTS), err)
	require.ErrorContains(t, err, "chain:v1")
	_, err = create(tenant, "name: broken\nversion: v1\nsteps: []")
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_PIPELINE_INVALID), err)
	other, err := create("other", chain)
	require.NoError(t, err)
	require.True(t, other.GetCreated(), "each tenant has pipelines of its own")
	require.Equal(t, 2, r.count("core.pipeline"))
}

func TestEqualRegistrationsAtOnce(t *testing.T) {
	t.Parallel()
	r := setup(t)
	var all sync.WaitGroup
	created := make(chan bool, 20)
	for range cap(created) {
		all.Go(func() {
			answer, err := r.client.CreatePipeline(t.Context(), &systemv1.CreatePipelineRequest{Tenant: tenant, Source: chain})
			if err != nil {
				t.Error(err)
			}
			created <- answer.GetCreated()
		})
	}
	all.Wait()
	close(created)
	news := 0
	for isNew := range created {
		if isNew {
			news++
		}
	}
	require.Equal(t, 1, news)
}

func TestPipelinesAreFound(t *testing.T) {
	t.Parallel()
	r := setup(t)
	for _, v := range []int{9, 10, 2} {
		r.register(version(v))
	}
	get := func(tenant string, req *systemv1.GetPipelineRequest) (*pawlv1.Pipeline, error) {
		req.Tenant = tenant
		answer, err := r.client.GetPipeline(t.Context(), req)
		return answer.GetPipeline(), err
	}
	byName := func(name string) *systemv1.GetPipelineRequest {
		return &systemv1.GetPipelineRequest{Selector: &systemv1.GetPipelineRequest_Name{Name: name}}
	}
	newest, err := get(tenant, byName("chain"))
	require.NoError(t, err)
	require.Equal(t, "v10", newest.GetVersion(), "newer than v9")
	nine, err := get(tenant, byName("chain:v9"))
	require.NoError(t, err)
	require.Equal(t, "v9", nine.GetVersion())
	digest, err := hex.DecodeString(nine.GetDigest())
	require.NoError(t, err)
	byDigest := func(digest []byte) *systemv1.GetPipelineRequest {
		return &systemv1.GetPipelineRequest{Selector: &systemv1.GetPipelineRequest_Digest{Digest: digest}}
	}
	found, err := get(tenant, byDigest(digest))
	require.NoError(t, err)
	require.Equal(t, "v9", found.GetVersion())
	require.Equal(t, version(9), found.GetSource())

	for _, unknown := range []*systemv1.GetPipelineRequest{
		byName("none"), byName("chain:v11"), byName("chain:v9:v9"),
		byDigest(bytes.Repeat([]byte{1}, 32)), byDigest([]byte{1}),
	} {
		_, err := get(tenant, unknown)
		require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_PIPELINE_NOT_FOUND), "%v: %v", unknown, err)
	}
	for _, foreign := range []*systemv1.GetPipelineRequest{byName("chain"), byName("chain:v9"), byDigest(digest)} {
		_, err := get("other", foreign)
		require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_PIPELINE_NOT_FOUND), err)
	}
}

func TestPipelinesAreListedInPages(t *testing.T) {
	t.Parallel()
	r := setup(t)
	for _, v := range []int{9, 10, 2} {
		r.register(version(v))
	}
	r.register(fan)
	r.registerFor("other", chain)
	want := []string{"chain:v10", "chain:v9", "chain:v2", "fan:v1"}
	for _, size := range []int32{0, 1, 2, 4} {
		var got []string
		query := &pawlv1.ListPipelinesRequest{PageSize: size}
		for more := true; more; {
			page, err := r.client.ListPipelines(t.Context(), &systemv1.ListPipelinesRequest{Tenant: tenant, Query: query})
			require.NoError(t, err)
			require.NotEmpty(t, page.GetPipelines())
			for _, p := range page.GetPipelines() {
				got = append(got, p.GetName()+":"+p.GetVersion())
				require.Empty(t, p.GetSource())
				require.NotEmpty(t, p.GetSteps())
				require.Len(t, p.GetDigest(), 64)
			}
			query.PageToken, more = page.GetNextPageToken(), page.GetNextPageToken() != ""
		}
		require.Equal(t, want, got, "pages of %d", size)
	}
	_, err := r.client.ListPipelines(t.Context(), &systemv1.ListPipelinesRequest{
		Tenant: tenant, Query: &pawlv1.ListPipelinesRequest{PageToken: "chain"},
	})
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID), err)
}

func documentRequest(key, content string) *systemv1.CreateDocumentRequest {
	digest := sha256.Sum256([]byte(content))
	return &systemv1.CreateDocumentRequest{
		Tenant: tenant, Idempotency: &systemv1.Idempotency{Key: key, RequestDigest: digest[:]},
		Content: []byte(content), MediaType: "text/plain", ExternalId: "their-7",
	}
}

func TestDocumentsAreKept(t *testing.T) {
	t.Parallel()
	r := setup(t)
	text := "Vertrag №1\x00 " + strings.Repeat("Договор. ", 10_000)
	created, err := r.client.CreateDocument(t.Context(), documentRequest("k", text))
	require.NoError(t, err)
	require.False(t, created.GetReplayed())
	get := func(tenant, id string, with bool) (*systemv1.GetDocumentResponse, error) {
		return r.client.GetDocument(t.Context(), &systemv1.GetDocumentRequest{Tenant: tenant, DocumentId: id, WithContent: with})
	}
	answer, err := get(tenant, created.GetDocumentId(), true)
	require.NoError(t, err)
	require.Equal(t, text, string(answer.GetContent()))
	d := answer.GetDocument()
	sum := sha256.Sum256([]byte(text))
	require.Equal(t, hex.EncodeToString(sum[:]), d.GetSha256())
	require.EqualValues(t, len(text), d.GetBytes())
	require.Equal(t, "text/plain", d.GetMediaType())
	require.Equal(t, "their-7", d.GetExternalId())
	require.NotNil(t, d.GetCreatedAt())
	answer, err = get(tenant, created.GetDocumentId(), false)
	require.NoError(t, err)
	require.Empty(t, answer.GetContent())

	_, err = get("other", created.GetDocumentId(), true)
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_DOCUMENT_NOT_FOUND), err)
	_, err = get(tenant, r.ids.V7().String(), false)
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_DOCUMENT_NOT_FOUND), err)
	empty, err := r.client.CreateDocument(t.Context(), documentRequest("empty", ""))
	require.NoError(t, err)
	answer, err = get(tenant, empty.GetDocumentId(), true)
	require.NoError(t, err)
	require.Empty(t, answer.GetContent())
}

// One key, one document, also for callers that come at once; the key of something else, or of another text, is refused.
func TestI05_OneKeyOneDocument(t *testing.T) {
	t.Parallel()
	stores := newStores(t)
	r, other := stores.replica(t), stores.replica(t)
	ids := make(chan string, 40)
	var all sync.WaitGroup
	for i := range cap(ids) {
		client := []systemv1.OrchestratorServiceClient{r.client, other.client}[i%2]
		all.Go(func() {
			answer, err := client.CreateDocument(t.Context(), documentRequest("k", "text"))
			if err != nil {
				t.Error(err)
			}
			ids <- answer.GetDocumentId()
		})
	}
	all.Wait()
	close(ids)
	first := <-ids
	for id := range ids {
		require.Equal(t, first, id)
	}
	require.Equal(t, 1, r.count("core.document"))
	_, err := r.client.CreateDocument(t.Context(), documentRequest("k", "another text"))
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED), err)

	r.register(chain)
	creation := r.creation("chain", `{"text": 1}`)
	creation.Idempotency.Key = "run"
	_, err = r.client.CreateRun(t.Context(), creation)
	require.NoError(t, err)
	sameKey := documentRequest("run", "text")
	sameKey.Idempotency.RequestDigest = creation.GetIdempotency().GetRequestDigest()
	_, err = r.client.CreateDocument(t.Context(), sameKey)
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED), err)
	foreign := documentRequest("k", "another text")
	foreign.Tenant = "other"
	answer, err := r.client.CreateDocument(t.Context(), foreign)
	require.NoError(t, err)
	require.False(t, answer.GetReplayed(), "each tenant has keys of its own")
}
