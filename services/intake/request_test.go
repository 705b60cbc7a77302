package intake

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/clocktest"
	"pawl.internal/services/internal/fault"
)

// TestEveryMethodTakesARole: a method that nobody thought of is open to nobody.
func TestEveryMethodTakesARole(t *testing.T) {
	t.Parallel()
	for _, file := range []protoreflect.FileDescriptor{
		pawlv1.File_pawl_v1_run_proto, pawlv1.File_pawl_v1_document_proto,
		pawlv1.File_pawl_v1_batch_proto, pawlv1.File_pawl_v1_job_proto, pawlv1.File_pawl_v1_pipeline_proto,
	} {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := "/" + string(service.FullName()) + "/" + string(service.Methods().Get(j).Name())
				require.True(t, store.RoleAdmin.Allows(leastRole(method)), method)
			}
		}
	}
	require.False(t, store.RoleAdmin.Allows(leastRole("/pawl.v1.RunService/Unknown")))
}

func TestUnquoteKey(t *testing.T) {
	t.Parallel()
	good := map[string]string{`a`: "a", `"a"`: "a", `"a b"`: "a b", `"a\"b\\c"`: `a"b\c`, `a\b`: `a\b`, `""`: ""}
	for header, want := range good {
		got, ok := unquoteKey(header)
		require.True(t, ok, header)
		require.Equal(t, want, got)
	}
	for _, header := range []string{`"`, `"a`, `a"`, `"a"b`, `"\a"`, `"a\"`, `"a";p=1`} {
		_, ok := unquoteKey(header)
		require.False(t, ok, header)
	}
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	require.Equal(t, `{"a":1,"b":9007199254740993}`, canonical(`{ "b": 9007199254740993, "a": 1.0 }`))
	require.Equal(t, `{"b":1,"b":2}`, canonical("{\"b\": 1,\n\"b\": 2}"), "what has no canonical form keeps its order")
	require.Equal(t, `"\ud800"`, canonical(` "\ud800" `))
	require.NotEqual(t, canonical("9007199254740993"), canonical("9007199254740992"), "no digit is lost")
}

func TestDotted(t *testing.T) {
	t.Parallel()
	for pointer, want := range map[string]string{
		"": "", "/text": ".text", "/pages/2/title": ".pages[2].title", "/a~1b/~0": ".a/b.~", "/": ".",
	} {
		require.Equal(t, want, dotted(pointer))
	}
}

func TestCheckCallbackURL(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"", "https://example.com", "http://10.0.0.1:8080/a?b=c", "https://[::1]/x", "HTTPS://EXAMPLE.COM/"} {
		require.Empty(t, checkCallbackURL(good), good)
	}
	for bad, want := range map[string]string{
		"example.com/x": "https://", "ftp://example.com": "https://", "https:///x": "host", "https://:80/": "host",
		"https://u@example.com": "user name", "https://example.com/#x": "fragment", "https://example.com/#": "fragment",
		"https://exa mple.com": "such as", "http://[::1": "such as", "http://a:b:c/": "such as",
	} {
		violations := checkCallbackURL(bad)
		require.Len(t, violations, 1, bad)
		require.Contains(t, violations[0].Message, want, bad)
	}
}

func TestPageTokensExpire(t *testing.T) {
	t.Parallel()
	clk := clocktest.New()
	pages := pageTokens{key: make([]byte, 32), clock: clk}
	list := &pawlv1.ListRunsRequest{EntityId: "e"}
	list.PageToken = pages.seal("acme", list, "cursor")
	clk.Advance(pageTTL)
	inner, err := pages.open("acme", list)
	require.NoError(t, err)
	require.Equal(t, "cursor", inner)
	clk.Advance(time.Second)
	_, err = pages.open("acme", list)
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID))
	require.ErrorContains(t, err, "expired")

	require.Empty(t, pages.seal("acme", list, ""), "the last page has no token")
	other := pageTokens{key: []byte("another key"), clock: clk}
	list.PageToken = other.seal("acme", list, "cursor")
	_, err = pages.open("acme", list)
	require.Error(t, err, "a token that somebody else made is worth nothing")
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	good := Config{
		REST: ":8080", MaxBodyBytes: 1 << 10, MaxDocumentBytes: 1 << 20,
		MaxBatchBytes: 1 << 20, MaxSpoolBytes: 1 << 20, RequestTimeout: time.Second,
		Admission: Admission{SubmitRate: 1, SubmitBurst: 1, MaxQueuedRuns: 1, MaxBacklog: 1, BatchShare: 1},
	}
	require.NoError(t, good.Validate())
	err := Config{MaxDocumentBytes: 1 << 30}.Validate()
	for _, flag := range []string{"rest", "max-body-bytes", "max-document-bytes", "max-batch-bytes", "max-spool-bytes", "request-timeout", "submit-rate", "batch-share"} {
		require.ErrorContains(t, err, flag)
	}
}
