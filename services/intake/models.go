package intake

import (
	"context"
	"sync"
	"time"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
)

const (
	// modelTTL is how long a model stays known without being asked for again.
	modelTTL = 30 * time.Second
	// maxModels bounds the models that are kept; operators configure a few dozen.
	maxModels = 1000
)

// models remembers which routes and models the gateway knows, so that a job costs no call to it.
type models struct {
	gateway systemv1.GatewayServiceClient
	clock   clock.Clock

	mu    sync.Mutex
	known map[string]time.Time // guarded by mu; when it was last found
}

func newModels(gateway systemv1.GatewayServiceClient, c clock.Clock) *models {
	return &models{gateway: gateway, clock: c, known: map[string]time.Time{}}
}

// check returns MODEL_UNKNOWN when no route and no model has the name. While the gateway is away, a model that was known
// before is taken to be still there.
func (m *models) check(ctx context.Context, name string) error {
	m.mu.Lock()
	found, known := m.known[name]
	m.mu.Unlock()
	if known && m.clock.Now().Sub(found) < modelTTL {
		return nil
	}
	_, err := m.gateway.GetRoute(ctx, &systemv1.GetRouteRequest{Name: name})
	switch {
	case fault.Is(err, faultv1.ErrorReason_ERROR_REASON_MODEL_UNKNOWN):
		m.forget(name)
		return fault.New(faultv1.ErrorReason_ERROR_REASON_MODEL_UNKNOWN, "there is no route and no model %q", name).
			WithMeta("model", name).
			WithViolations(fault.Violation{Field: "model", Message: "must be the name of a route or of a model"})
	case err != nil && !known:
		return err
	case err == nil:
		m.remember(name)
	}
	return nil
}

func (m *models) remember(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= maxModels {
		clear(m.known)
	}
	m.known[name] = m.clock.Now()
}

func (m *models) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, name)
}
