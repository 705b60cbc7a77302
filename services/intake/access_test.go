package intake_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/intake"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/testkit"
)

func TestKeysOpen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const path = "/v1/runs"
	require.Equal(t, 200, b.call(t, b.acme, "GET", path, "").status)
	require.Equal(t, 200, b.call(t, "", "GET", path, "", "X-Api-Key: "+b.acme).status)
	require.Equal(t, 200, b.call(t, "", "GET", path, "", "Authorization: bearer  "+b.acme).status)

	wrong := b.acme[:len(b.acme)-1] + "0"
	for name, key := range map[string]string{"none": "", "of another form": "secret", "unknown": "pawl_unknown0_0123456789abcdef", "wrong secret": wrong} {
		refused := b.call(t, key, "GET", path, "")
		require.Equal(t, 401, refused.status, name)
		require.Equal(t, "Bearer", refused.header.Get("WWW-Authenticate"), name)
		require.Equal(t, "UNAUTHENTICATED", refused.problem(t).Reason)
		require.NotContains(t, refused.body, "0123456789abcdef", "a secret is never repeated")
	}
	require.Equal(t, 401, b.call(t, "", "GET", path, "", "Authorization: Basic "+b.acme).status)
	require.Empty(t, b.orchestrator.taken()[3:], "only the three good calls arrived")
}

func TestKeysEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, column := range []string{"revoked_at", "expires_at"} {
		key := b.newKey(t, "acme", store.RoleClient)
		_, err := b.database.Pool.Exec(t.Context(),
			fmt.Sprintf("UPDATE access.api_key SET %s = clock_timestamp() WHERE prefix = $1", column), strings.Split(key, "_")[1])
		require.NoError(t, err)
		require.Equal(t, 401, b.call(t, key, "GET", "/v1/runs", "").status, column)
	}
	later := b.newKey(t, "acme", store.RoleClient)
	_, err := b.database.Pool.Exec(t.Context(), "UPDATE access.api_key SET expires_at = clock_timestamp() + '1 hour'")
	require.NoError(t, err)
	require.Equal(t, 200, b.call(t, later, "GET", "/v1/runs", "").status)
}

func TestRoles(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := `{"pipeline":"document_extract","input":{"text":"x"}}`
	source := "name: p\nversion: v1\nsteps:\n  - {name: s, transform: 1}\n"
	for role, allowed := range map[store.Role][3]bool{
		store.RoleViewer: {true, false, false}, store.RoleClient: {true, true, false},
		store.RoleOperator: {true, true, true}, store.RoleAdmin: {true, true, true},
	} {
		key := b.newKey(t, "acme", role)
		statuses := [3]int{
			b.call(t, key, "GET", "/v1/runs", "").status,
			b.call(t, key, "POST", "/v1/runs", run, "Idempotency-Key: "+string(role)).status,
			b.call(t, key, "POST", "/v1/pipelines", source, "Content-Type: application/yaml").status,
		}
		for i, may := range allowed {
			require.Equal(t, may, statuses[i] != 403, "%s, call %d: %d", role, i, statuses[i])
		}
	}
	viewer := b.newKey(t, "acme", store.RoleViewer)
	p := b.call(t, viewer, "POST", "/v1/runs", run, "Idempotency-Key: v").problem(t)
	require.Equal(t, "PERMISSION_DENIED", p.Reason)
	require.Equal(t, "a key with the role viewer cannot do this: it takes the role client", p.Detail)
	call := "/v1/runs/0192f0e4-7b1a-7c3d-9e8f-0123456789ab/llm_calls/" + strings.Repeat("0a", 32)
	client := b.newKey(t, "acme", store.RoleClient)
	require.Equal(t, 403, b.call(t, client, "GET", call, "").status, "raw answers are for operators")
}

// TestI17_TenantsAreApart: by every id that acme has, rival gets 404, over REST and over gRPC.
func TestI17_TenantsAreApart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	document := b.call(t, b.acme, "POST", "/v1/documents", "x", "Content-Type: text/plain", "Idempotency-Key: 1").member(t, "document_id")
	run := b.call(t, b.acme, "POST", "/v1/documents/"+document+"/extract", "", "Idempotency-Key: 2").member(t, "run_id")
	job := b.call(t, b.acme, "POST", "/v1/jobs", `{"model":"small","messages":[{"role":"user","content":"x"}]}`, "Idempotency-Key: 3").member(t, "job_id")
	calls := [][3]string{
		{"GET", "/v1/runs/" + run},
		{"GET", "/runs/" + run},
		{"GET", "/v1/runs/" + run + "/steps"},
		{"GET", "/v1/runs/" + run + "/events"},
		{"GET", "/v1/runs/" + run + "/llm_calls"},
		{"GET", "/v1/runs/" + run + "/llm_calls/" + strings.Repeat("0a", 32)},
		{"GET", "/v1/runs/" + run + ":watch"},
		{"POST", "/v1/runs/" + run + ":cancel", `{}`},
		{"POST", "/v1/runs/" + run + ":retry", `{"reason":"x"}`},
		{"GET", "/v1/documents/" + document},
		{"POST", "/v1/documents/" + document + "/extract", `{}`},
		{"GET", "/v1/jobs/" + job},
		{"GET", "/v1/pipelines/document_extract"},
		{"POST", "/v1/runs", `{"pipeline":"document_extract","input":{"text":"x"}}`},
	}
	for _, call := range calls {
		refused := b.call(t, b.rival, call[0], call[1], call[2], "Idempotency-Key: 2")
		require.Equal(t, 404, refused.status, "%s %s: %s", call[0], call[1], refused.body)
	}
	require.NotContains(t, b.gateway.taken(), "GetCall", "the gateway is not asked for what is not the caller's")
	require.NotContains(t, b.gateway.taken(), "ListCalls", "the gateway is not asked for what is not the caller's")
	require.Empty(t, b.orchestrator.actions)
	require.JSONEq(t, `{"runs":[]}`, b.call(t, b.rival, "GET", "/v1/runs", "").body)
	require.JSONEq(t, `{"pipelines":[]}`, b.call(t, b.rival, "GET", "/v1/pipelines", "").body)

	_, err := pawlv1.NewRunServiceClient(b.conn(t)).GetRun(as(t, b.rival), &pawlv1.GetRunRequest{RunId: run})
	require.Equal(t, codes.NotFound, fault.CodeOf(err))
	put := b.call(t, b.rival, "POST", "/v1/documents", "x", "Content-Type: text/plain", "Idempotency-Key: 1")
	require.Equal(t, 201, put.status, "another tenant's idempotency key is free")
	require.NotEqual(t, document, put.member(t, "document_id"))
}

func TestEnsureKey(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t, store.Schema())
	ensure := func(tenant string, role store.Role, key string) (string, error) {
		return intake.EnsureKey(t.Context(), db.Pool, tenant, role, key)
	}
	made, err := ensure("default", store.RoleAdmin, "")
	require.NoError(t, err)
	require.Regexp(t, `^pawl_[a-z2-7]{8}_[a-z2-7]{52}$`, made)
	other, err := ensure("default", store.RoleAdmin, "")
	require.NoError(t, err)
	require.NotEqual(t, made, other)

	for range 2 {
		same, err := ensure("default", store.RoleAdmin, made)
		require.NoError(t, err)
		require.Equal(t, made, same)
	}
	given, err := ensure("default", store.RoleClient, "pawl_mine_0123456789abcdefXYZ")
	require.NoError(t, err)
	require.Equal(t, "pawl_mine_0123456789abcdefXYZ", given)

	for _, conflict := range [][3]string{
		{"default", "admin", "pawl_mine_another0secret0here"}, {"other", "client", given}, {"default", "admin", given},
	} {
		_, err := ensure(conflict[0], store.Role(conflict[1]), conflict[2])
		require.ErrorContains(t, err, "pawl_mine_… is in use already")
	}
	for _, bad := range []string{"pawl_", "secret", "pawl_ABC_0123456789abcdef", "pawl_abcd_short", given + "!"} {
		_, err := ensure("default", store.RoleAdmin, bad)
		require.ErrorContains(t, err, "an API key is pawl_<prefix>_<secret>", bad)
	}
	var leaked int
	require.NoError(t, db.Pool.QueryRow(t.Context(),
		"SELECT count(*) FROM access.api_key AS k WHERE k::text LIKE '%' || $1 || '%'", strings.Split(made, "_")[2]).Scan(&leaked))
	require.Zero(t, leaked, "secrets are not stored")
}

func TestTheLastUseOfKeysIsStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.call(t, b.acme, "GET", "/v1/runs", "")
	b.stop()
	var acme, rival bool
	query := "SELECT last_used_at IS NOT NULL FROM access.api_key WHERE tenant = $1"
	require.NoError(t, b.database.Pool.QueryRow(t.Context(), query, "acme").Scan(&acme))
	require.NoError(t, b.database.Pool.QueryRow(t.Context(), query, "rival").Scan(&rival))
	require.True(t, acme)
	require.False(t, rival)
}

// TestReplicasAgree: another replica takes the page tokens of the first, and finds the same keys.
func TestReplicasAgree(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 2 {
		b.call(t, b.acme, "POST", "/v1/runs", `{"pipeline":"document_extract","input":{"text":"x"}}`, fmt.Sprintf("Idempotency-Key: %d", i))
	}
	token := b.call(t, b.acme, "GET", "/v1/runs?page_size=1", "").member(t, "next_page_token")
	require.NotEmpty(t, token)
	b.stop()
	b.start(t)
	require.Equal(t, 200, b.call(t, b.acme, "GET", "/v1/runs?page_size=1&page_token="+token, "").status)
}

func TestHealth(t *testing.T) {
	t.Parallel()
	b := &bundle{orchestrator: newOrchestrator(), gateway: &gateway{}, database: testkit.Postgres(t, store.Schema())}
	redis := testkit.PrivateRedis(t)
	b.redis = testkit.KeysAt(t, redis.URL())
	b.start(t)
	get := func(path string) int {
		response, err := http.Get(b.url + path)
		require.NoError(t, err)
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode
	}
	for _, path := range []string{"/livez", "/readyz", "/healthz", "/metrics", "/openapi.json"} {
		require.Equal(t, 200, get(path), path)
	}
	redis.Kill()
	require.Equal(t, 503, get("/healthz"), "for monitors")
	require.Equal(t, 200, get("/readyz"), "work is still accepted")
	require.Equal(t, 200, get("/livez"))
	require.NoError(t, redis.Start(context.WithoutCancel(t.Context())))
	testkit.Eventually(t, patience, func() error {
		if status := get("/healthz"); status != 200 {
			return fmt.Errorf("healthz is %d", status)
		}
		return nil
	})
}
