package intake_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	"pawl.internal/services/intake"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/fault"
)

// object reads an answer's body.
func (a answer) object(t *testing.T) map[string]any {
	t.Helper()
	var object map[string]any
	require.NoError(t, json.Unmarshal([]byte(a.body), &object), a.body)
	return object
}

// prefixOf is the public part of a key.
func prefixOf(key string) string { return strings.Split(key, "_")[1] }

func TestOperatorsManageTenants(t *testing.T) {
	t.Parallel()
	b := setup(t)
	operator, admin := b.newKey(t, store.System, store.RoleAdmin), b.newKey(t, "acme", store.RoleAdmin)
	made := b.call(t, operator, "POST", "/v1/tenants", `{"tenant_id":"new","weight":3,"limits":{"submit_rate":60},"reason":"contract 7"}`)
	require.Equal(t, 201, made.status, made.body)
	require.Equal(t, "/v1/tenants/new", made.header.Get("Location"))
	require.Equal(t, "ALREADY_EXISTS", b.call(t, operator, "POST", "/v1/tenants", `{"tenant_id":"new"}`).problem(t).Reason)
	require.Equal(t, 400, b.call(t, operator, "POST", "/v1/tenants", `{"tenant_id":"New Tenant"}`).status)

	seen := b.call(t, operator, "GET", "/v1/tenants/new", "").object(t)
	require.Equal(t, map[string]any{"submit_rate": 60.0}, seen["limits"])
	require.Equal(t, map[string]any{"submit_rate": 60.0, "submit_burst": 10000.0, "max_queued_runs": 1000.0}, seen["effective_limits"])

	change := `{"limits":{"max_concurrent_steps":5},"reset_limits":["submit_rate"],"reason":"asked by ann"}`
	changed := b.call(t, operator, "PATCH", "/v1/tenants/new", change, `If-Match: "1"`)
	require.Equal(t, 200, changed.status, changed.body)
	require.Equal(t, map[string]any{"max_concurrent_steps": 5.0}, changed.object(t)["limits"])
	require.InDelta(t, 3, changed.object(t)["weight"], 0, "what is not given stays")
	require.Equal(t, "ETAG_MISMATCH", b.call(t, operator, "PATCH", "/v1/tenants/new", change, `If-Match: "1"`).problem(t).Reason)
	require.Equal(t, "reason", b.call(t, operator, "PATCH", "/v1/tenants/new", `{"weight":2}`).problem(t).Errors[0].Field)
	require.Equal(t, 404, b.call(t, operator, "PATCH", "/v1/tenants/nobody", change).status)
	require.Equal(t, 404, b.call(t, operator, "GET", "/v1/tenants/Nobody%00", "").status)
	require.Equal(t, 400, b.call(t, operator, "PATCH", "/v1/tenants/system", `{"disabled":true,"reason":"x"}`).status)

	require.Equal(t, 403, b.call(t, admin, "POST", "/v1/tenants", `{"tenant_id":"other"}`).status)
	require.Equal(t, 403, b.call(t, admin, "PATCH", "/v1/tenants/acme", change).status)
	require.Equal(t, 200, b.call(t, admin, "GET", "/v1/tenants/acme", "").status)
	require.Equal(t, 404, b.call(t, admin, "GET", "/v1/tenants/new", "").status)
	var actions int
	require.NoError(t, b.database.Pool.QueryRow(t.Context(),
		`SELECT count(*) FROM access.admin_action WHERE tenant = 'new' AND actor = $1
		 AND (action = 'create_tenant' AND before IS NULL AND reason = 'contract 7'
		      OR action = 'update_tenant' AND before->>'submit_rate' = '60' AND after->>'submit_rate' IS NULL AND reason = 'asked by ann')`,
		"key:"+prefixOf(operator)).Scan(&actions))
	require.Equal(t, 2, actions, "each change once, with who, what and why")
}

func TestTenantsAreListedByPage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	operator, admin := b.newKey(t, store.System, store.RoleAdmin), b.newKey(t, "acme", store.RoleAdmin)
	var ids []string
	for path := "/v1/tenants?page_size=2"; ; {
		page := b.call(t, operator, "GET", path, "").object(t)
		for _, each := range page["tenants"].([]any) {
			ids = append(ids, each.(map[string]any)["tenant_id"].(string))
		}
		token, _ := page["next_page_token"].(string)
		if token == "" {
			break
		}
		path = "/v1/tenants?page_size=2&page_token=" + token
	}
	require.Equal(t, []string{"acme", "rival", "system"}, ids)
	own := b.call(t, admin, "GET", "/v1/tenants", "").object(t)["tenants"].([]any)
	require.Len(t, own, 1)
	require.Equal(t, "acme", own[0].(map[string]any)["tenant_id"])
}

func TestAdministratorsManageTheirKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	admin := b.newKey(t, "acme", store.RoleAdmin)
	const keys = "/v1/tenants/acme/keys"
	made := b.call(t, admin, "POST", keys, `{"role":"viewer","ttl":"3600s","note":"dashboard"}`)
	require.Equal(t, 201, made.status, made.body)
	require.Equal(t, "no-store", made.header.Get("Cache-Control"))
	key := made.member(t, "api_key")
	require.Equal(t, 200, b.call(t, key, "GET", "/v1/runs", "").status)
	require.Equal(t, 403, b.call(t, key, "GET", keys, "").status, "a viewer's key")
	for _, bad := range []string{`{}`, `{"role":"owner"}`, `{"role":"viewer","expires_at":"2020-01-01T00:00:00Z"}`, `{"role":"viewer","ttl":"0s"}`, `{"role":"viewer","note":"\u0000"}`} {
		require.Equal(t, 400, b.call(t, admin, "POST", keys, bad).status, bad)
	}

	var prefixes []string
	for path := keys + "?page_size=1"; ; {
		answer := b.call(t, admin, "GET", path, "")
		require.NotContains(t, answer.body, strings.Split(key, "_")[2])
		require.NotContains(t, answer.body, "hash")
		page := answer.object(t)
		for _, each := range page["keys"].([]any) {
			prefixes = append(prefixes, each.(map[string]any)["prefix"].(string))
		}
		token, _ := page["next_page_token"].(string)
		if token == "" {
			break
		}
		path = keys + "?page_size=1&page_token=" + token
	}
	require.Equal(t, []string{prefixOf(key), prefixOf(admin), prefixOf(b.acme)}, prefixes, "the newest first")

	revoke := keys + "/" + prefixOf(key) + ":revoke"
	for range 2 {
		revoked := b.call(t, admin, "POST", revoke, `{"reason":"left"}`)
		require.Equal(t, 200, revoked.status, revoked.body)
		require.NotEmpty(t, revoked.member(t, "revoked_at"))
		require.Equal(t, 401, b.call(t, key, "GET", "/v1/runs", "").status, "at once where it was revoked")
	}
	require.Equal(t, 404, b.call(t, admin, "POST", keys+"/nothing:revoke", `{"reason":"x"}`).status)
	require.Equal(t, 404, b.call(t, admin, "POST", keys+"/a%00b:revoke", `{"reason":"x"}`).status)
	require.Equal(t, 404, b.call(t, admin, "POST", keys+"/"+prefixOf(b.rival)+":revoke", `{"reason":"x"}`).status)
	require.Equal(t, "WRONG_STATE", b.call(t, admin, "POST", keys+"/"+prefixOf(key)+":rotate", `{}`).problem(t).Reason)
	var actions, secrets int
	require.NoError(t, b.database.Pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE action IN ('create_key', 'revoke_key')),
		count(*) FILTER (WHERE a::text LIKE '%' || $1 || '%') FROM access.admin_action AS a WHERE tenant = 'acme'`,
		strings.Split(key, "_")[2]).Scan(&actions, &secrets))
	require.Equal(t, [2]int{2, 0}, [2]int{actions, secrets}, "a revocation that changed nothing is no action")
}

func TestKeysAreRotated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	admin := b.newKey(t, "acme", store.RoleAdmin)
	key := b.call(t, admin, "POST", "/v1/tenants/acme/keys", `{"role":"client","ttl":"864000s"}`).member(t, "api_key")
	rotated := b.call(t, admin, "POST", "/v1/tenants/acme/keys/"+prefixOf(key)+":rotate", `{}`)
	require.Equal(t, 201, rotated.status, rotated.body)
	fresh := rotated.member(t, "api_key")
	for _, each := range []string{key, fresh} {
		require.Equal(t, 200, b.call(t, each, "GET", "/v1/runs", "").status)
		require.Equal(t, 403, b.call(t, each, "POST", "/v1/pipelines", "name: p", "Content-Type: application/yaml").status, "the same role")
	}
	left, now := map[string]time.Duration{}, time.Now()
	for name, member := range map[string]string{"old": "replaced", "new": "key"} {
		text := rotated.object(t)[member].(map[string]any)["expires_at"].(string)
		at, err := time.Parse(time.RFC3339Nano, text)
		require.NoError(t, err)
		left[name] = at.Sub(now).Round(time.Hour)
	}
	require.Equal(t, map[string]time.Duration{"old": 24 * time.Hour, "new": 240 * time.Hour}, left)

	again := b.call(t, admin, "POST", "/v1/tenants/acme/keys/"+prefixOf(key)+":rotate", `{"overlap":"0s"}`)
	require.Equal(t, 201, again.status, again.body)
	require.Equal(t, 401, b.call(t, key, "GET", "/v1/runs", "").status, "at once where nothing else was asked")
	long := b.call(t, admin, "POST", "/v1/tenants/acme/keys/"+prefixOf(again.member(t, "api_key"))+":rotate", `{"overlap":"7776000s","ttl":"60s"}`)
	at, err := time.Parse(time.RFC3339Nano, long.object(t)["replaced"].(map[string]any)["expires_at"].(string))
	require.NoError(t, err)
	require.Less(t, at.Sub(now), 48*time.Hour, "no key lives longer for being replaced")
}

func TestKeysOfADisabledTenantAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	operator := b.newKey(t, store.System, store.RoleAdmin)
	require.Equal(t, 200, b.call(t, b.acme, "GET", "/v1/runs", "").status)
	for _, disabled := range []bool{true, false} {
		want := map[bool]int{true: 401, false: 200}[disabled]
		change := fmt.Sprintf(`{"disabled":%t,"reason":"unpaid"}`, disabled)
		require.Equal(t, 200, b.call(t, operator, "PATCH", "/v1/tenants/acme", change).status)
		key := b.newKey(t, "acme", store.RoleViewer)
		require.Equal(t, want, b.call(t, key, "GET", "/v1/runs", "").status)
		require.Equal(t, want, b.call(t, b.acme, "GET", "/v1/runs", "").status)
	}
}

// TestPoliciesArriveAtTheOrchestrator: a change is told at once, and again until it is confirmed.
func TestPoliciesArriveAtTheOrchestrator(t *testing.T) {
	t.Parallel()
	b := setup(t)
	operator := b.newKey(t, store.System, store.RoleAdmin)
	b.orchestrator.setDeaf(fault.New(faultv1.ErrorReason_ERROR_REASON_UNAVAILABLE, "away"))
	change := `{"weight":7,"limits":{"max_concurrent_steps":4},"reason":"x"}`
	require.Equal(t, 200, b.call(t, operator, "PATCH", "/v1/tenants/acme", change).status)
	require.NotEqual(t, int32(7), b.orchestrator.knownPolicies()["acme"].GetWeight())
	b.orchestrator.setDeaf(nil)
	require.Eventually(t, func() bool {
		acme := b.orchestrator.knownPolicies()["acme"]
		return acme.GetWeight() == 7 && acme.GetMaxConcurrentSteps() == 4 && acme.GetVersion() == 2
	}, patience, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		var owed int
		err := b.database.Pool.QueryRow(t.Context(), "SELECT count(*) FROM access.tenant WHERE policy_confirmed_version < version").Scan(&owed)
		return err == nil && owed == 0
	}, patience, 10*time.Millisecond)
	require.Nil(t, b.orchestrator.knownPolicies()["rival"].MaxConcurrentSteps, "no limit is not a limit of 0") //nolint:protogetter // absent is not 0
}

func TestTheFirstKeyOfTheOperatorsIsMadeOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, err := intake.Bootstrap(t.Context(), b.database.Pool, false)
	require.NoError(t, err)
	require.Equal(t, 200, b.call(t, key, "GET", "/v1/tenants/rival", "").status)
	_, err = intake.Bootstrap(t.Context(), b.database.Pool, false)
	require.ErrorContains(t, err, "--again")
	again, err := intake.Bootstrap(t.Context(), b.database.Pool, true)
	require.NoError(t, err)
	require.Equal(t, 200, b.call(t, again, "GET", "/v1/tenants", "").status)
	for _, each := range []string{key, again} {
		require.Equal(t, 200, b.call(t, again, "POST", "/v1/tenants/system/keys/"+prefixOf(each)+":revoke", `{"reason":"x"}`).status)
	}
	_, err = intake.Bootstrap(t.Context(), b.database.Pool, false)
	require.NoError(t, err, "when none is valid any more, one can be made")
}
