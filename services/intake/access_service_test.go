package intake_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/fault"
)

// Other services ask whose a key is without a key of their own, and get the answer of now: they remember it themselves.
func TestOtherServicesAskWhoseAKeyIs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	client := systemv1.NewAccessServiceClient(b.conn(t))
	key := b.newKey(t, "acme", store.RoleClient)
	who, err := client.Authenticate(t.Context(), &systemv1.AuthenticateRequest{ApiKey: key})
	require.NoError(t, err)
	require.Equal(t, "acme client", who.GetTenant()+" "+who.GetRole())
	require.Contains(t, key, "pawl_"+who.GetKeyPrefix()+"_")

	_, err = b.database.Pool.Exec(t.Context(), "UPDATE access.api_key SET revoked_at = clock_timestamp() WHERE prefix = $1", who.GetKeyPrefix())
	require.NoError(t, err)
	for _, refused := range []string{key, "secret", "pawl_unknown0_0123456789abcdef"} {
		_, err = client.Authenticate(t.Context(), &systemv1.AuthenticateRequest{ApiKey: refused})
		require.Equal(t, codes.Unauthenticated, fault.CodeOf(err), refused)
		require.NotContains(t, err.Error(), "0123456789abcdef")
	}
	require.Equal(t, 401, b.call(t, key, "GET", "/v1/runs", "").status, "what was found out holds for intake too")
}
