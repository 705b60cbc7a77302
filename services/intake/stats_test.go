package intake_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/intake/store"
)

func TestSpendIsTheCallersOwnUnlessAnOperatorAsks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	viewer, admin := b.newKey(t, "acme", store.RoleViewer), b.newKey(t, store.System, store.RoleAdmin)
	const path = "/v1/stats/spend?from=2026-11-01&to=2026-11-30&group_by=model&group_by=day"
	seen := b.call(t, viewer, "GET", path, "")
	require.Equal(t, 200, seen.status, seen.body)
	require.Regexp(t, `"rows":\[\{"tenant":"acme","model":"small",.*"requests":2,.*"cost_usd":"0.000000000002".*"model":"large"`, seen.body)
	require.Equal(t, "0.100000000002", seen.member(t, "total_usd"))
	asked := b.gateway.spendAsked()
	require.Equal(t, "acme", asked.GetTenant())
	require.Equal(t, "2026-11-01T00:00:00Z 2026-12-01T00:00:00Z",
		asked.GetFrom().AsTime().Format("2006-01-02T15:04:05Z")+" "+asked.GetTo().AsTime().Format("2006-01-02T15:04:05Z"))
	require.Len(t, asked.GetGroupBy(), 2)

	require.Equal(t, 200, b.call(t, viewer, "GET", path+"&tenant=acme", "").status)
	require.Equal(t, 404, b.call(t, viewer, "GET", path+"&tenant=rival", "").status)
	require.Equal(t, 404, b.call(t, b.newKey(t, "acme", store.RoleAdmin), "GET", path+"&tenant=rival", "").status)
	require.Equal(t, 200, b.call(t, admin, "GET", path, "").status)
	require.Empty(t, b.gateway.spendAsked().GetTenant(), "an operator sees all")
	require.Equal(t, 200, b.call(t, admin, "GET", path+"&tenant=rival", "").status)
	require.Equal(t, "rival", b.gateway.spendAsked().GetTenant())

	require.Equal(t, 200, b.call(t, viewer, "GET", "/v1/stats/spend", "").status, "this month")
	month := b.gateway.spendAsked()
	require.Equal(t, 1, month.GetFrom().AsTime().Day())
	for _, bad := range []string{"?from=2026-02-30", "?from=yesterday", "?from=2026-11-02&to=2026-11-01", "?from=1900-01-01", "?group_by=colour"} {
		require.Equal(t, 400, b.call(t, viewer, "GET", "/v1/stats/spend"+bad, "").status, bad)
	}
}

func TestBudgetsAreSetByAdministrators(t *testing.T) {
	t.Parallel()
	b := setup(t)
	operator, admin := b.newKey(t, "acme", store.RoleOperator), b.newKey(t, "acme", store.RoleAdmin)
	require.Equal(t, 403, b.call(t, operator, "PUT", "/v1/budget", `{"month_usd":"5"}`).status)
	set := b.call(t, admin, "PUT", "/v1/budget", `{"month_usd":"250.00"}`)
	require.Equal(t, 200, set.status, set.body)
	require.Equal(t, "250", set.member(t, "month_usd"))
	seen := b.call(t, operator, "GET", "/v1/budget", "")
	require.Equal(t, 200, seen.status, seen.body)
	require.Equal(t, "250", seen.member(t, "month_usd"))
	require.Equal(t, 404, b.call(t, operator, "GET", "/v1/budget?tenant=rival", "").status)
	require.Equal(t, 404, b.call(t, admin, "GET", "/v1/budget?tenant=rival", "").status)
	require.Equal(t, 404, b.call(t, admin, "PUT", "/v1/budget", `{"tenant":"rival","month_usd":"1"}`).status)
	require.Equal(t, 200, b.call(t, b.newKey(t, store.System, store.RoleAdmin), "GET", "/v1/budget?tenant=acme", "").status)
	require.Equal(t, 200, b.call(t, admin, "PUT", "/v1/budget", `{}`).status)
	require.NotContains(t, b.call(t, operator, "GET", "/v1/budget", "").body, "month_usd")
	for _, bad := range []string{`{"month_usd":"-1"}`, `{"month_usd":"much"}`, `{"month_usd":""}`} {
		require.Equal(t, 400, b.call(t, admin, "PUT", "/v1/budget", bad).status, bad)
	}
	require.Equal(t, 405, b.call(t, admin, "POST", "/v1/budget", `{}`).status)
}
