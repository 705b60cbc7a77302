// Package rest is the REST side of the public API: grpc-gateway in front of intake's own gRPC server, so that a REST call
// passes the same authentication, validation and handlers as a gRPC call.
//
// What HTTP adds is here: bodies in other types than JSON, limits on their size, status codes and headers, errors as
// problem+json (RFC 9457), watching a run by server-sent events, and batches and their
// results as JSON lines. It decides nothing about what is asked.
package rest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"pawl.internal/gen/openapi"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/ids"
)

// Config is what the REST API needs; every field is required.
type Config struct {
	// Connection leads to intake's own gRPC server.
	Connection *grpc.ClientConn
	// Admin answers /livez, /readyz, /healthz and /metrics.
	Admin   http.Handler
	Clock   clock.Clock
	IDs     *ids.Source
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// MaxBodyBytes bounds the body of a call, MaxDocumentBytes that of a document's upload.
	MaxBodyBytes, MaxDocumentBytes int
	// MaxBatchBytes bounds the body of a batch that is sent in one request; uploads have no bound.
	MaxBatchBytes int
	// Timeout bounds a call; watching a run has no bound.
	Timeout time.Duration
}

// api is the REST API.
type api struct {
	Config
	metrics *metrics
	mux     *runtime.ServeMux
	routes  routes
	runs    pawlv1.RunServiceClient
	batches pawlv1.BatchServiceClient
}

// New returns the handler of the REST API.
func New(ctx context.Context, cfg Config) (http.Handler, error) {
	a := &api{
		Config: cfg, metrics: newMetrics(cfg.Metrics), routes: allRoutes(), runs: pawlv1.NewRunServiceClient(cfg.Connection),
		batches: pawlv1.NewBatchServiceClient(cfg.Connection),
	}
	a.mux = runtime.NewServeMux(a.muxOptions()...)
	if err := a.register(ctx); err != nil {
		return nil, err
	}
	return a.observe(headAsGet(http.HandlerFunc(a.dispatch))), nil
}

// dispatch tells the few paths that are no calls from those that are. (http.ServeMux would redirect paths that it finds
// untidy, and a redirected POST arrives without its body.)
func (a *api) dispatch(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		switch r.URL.Path {
		case "/livez", "/readyz", "/healthz", "/metrics":
			a.Admin.ServeHTTP(w, r)
			return
		case "/openapi.json":
			serveOpenAPI(w)
			return
		}
	}
	a.mux.ServeHTTP(w, r)
}

func (a *api) register(ctx context.Context) error {
	var errs []error
	for _, register := range []func(context.Context, *runtime.ServeMux, *grpc.ClientConn) error{
		pawlv1.RegisterRunServiceHandler,
		pawlv1.RegisterDocumentServiceHandler,
		pawlv1.RegisterJobServiceHandler,
		pawlv1.RegisterBatchServiceHandler,
		pawlv1.RegisterScheduleServiceHandler,
		pawlv1.RegisterPipelineServiceHandler,
		pawlv1.RegisterStatsServiceHandler,
		pawlv1.RegisterTenantServiceHandler,
	} {
		errs = append(errs, register(ctx, a.mux, a.Connection))
	}
	for _, path := range watchPaths() {
		errs = append(errs, a.mux.HandlePath(http.MethodGet, path, a.watch))
	}
	return errors.Join(append(errs,
		a.mux.HandlePath(http.MethodPost, uploadPath, a.upload),
		a.mux.HandlePath(http.MethodGet, resultsPath, a.results))...)
}

// headAsGet lets HEAD be asked of everything that GET is; the server leaves the body out.
func headAsGet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			r = r.Clone(r.Context())
			r.Method = http.MethodGet
		}
		next.ServeHTTP(w, r)
	})
}

func serveOpenAPI(w http.ResponseWriter) {
	w.Header().Set("Content-Type", contentJSON)
	_, _ = w.Write(openapi.Document) // the caller went away: nobody is left to tell
}
