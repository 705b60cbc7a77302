package boot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"pawl.internal/services/internal/fault"
)

const adminHeaderTime = 5 * time.Second

// AdminHandler answers for the whole process:
//
//   - /livez: the process answers, whatever its dependencies do; the only liveness probe
//   - /readyz: every service of the process can serve
//   - /healthz: every dependency is there, for monitors
//   - /metrics: in the format of Prometheus
func (p *Process) AdminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", report(func(context.Context) map[string]error { return nil }))
	mux.HandleFunc("GET /readyz", report(p.health.readiness))
	mux.HandleFunc("GET /healthz", report(p.health.dependencies))
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.Metrics, promhttp.HandlerOpts{}))
	return mux
}

// report answers 200 when every result is nil, else 503, with each result by name.
func report(results func(context.Context) map[string]error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body := struct {
			Status string            `json:"status"`
			Checks map[string]string `json:"checks"`
		}{Status: "ok", Checks: map[string]string{}}
		status := http.StatusOK
		for name, err := range results(r.Context()) {
			body.Checks[name] = describe(err)
			if err != nil {
				body.Status, status = "unavailable", http.StatusServiceUnavailable
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body) // the prober went away: nobody is left to tell
	}
}

// describe says what may be said to anybody who can ask.
func describe(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, errStarting), errors.Is(err, errStopping):
		return err.Error()
	default:
		return fault.Of(err).Message
	}
}

// serveAdmin serves AdminHandler, and profiles if asked for, until the end of the stop list.
func (p *Process) serveAdmin(ctx context.Context, fail func(error)) error {
	if p.config.Admin == "" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.config.Admin)
	if err != nil {
		return fmt.Errorf("admin cannot listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", p.AdminHandler())
	if p.config.Profiles {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: adminHeaderTime}
	p.OnStop("admin", time.Second, func(context.Context) error { return server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fail(fmt.Errorf("admin: serve: %w", err))
		}
	}()
	return nil
}
