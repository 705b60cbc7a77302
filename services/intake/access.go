package intake

import (
	"context"

	systemv1 "pawl.internal/gen/pawl/system/v1"
)

// access tells other services whose keys are that were presented to them. It repeats no key and no secret.
type access struct {
	systemv1.UnimplementedAccessServiceServer

	keys *keyring
}

// Authenticate returns the holder of a key, or UNAUTHENTICATED.
func (a access) Authenticate(ctx context.Context, req *systemv1.AuthenticateRequest) (*systemv1.AuthenticateResponse, error) {
	holder, err := a.keys.identifyNow(ctx, req.GetApiKey())
	if err != nil {
		return nil, err
	}
	return &systemv1.AuthenticateResponse{Tenant: holder.tenant, Role: string(holder.role), KeyPrefix: holder.keyPrefix}, nil
}
