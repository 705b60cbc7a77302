// Package telemetry makes what a process observes itself with: its logger and its metrics registry. Both are passed on
// explicitly; nothing here is global.
package telemetry

import (
	"io"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/term"
)

// Config says what a process logs, and how. Embed it with the prefix "log-".
type Config struct {
	Level  slog.Level `help:"Least level that is logged: debug, info, warn or error." default:"info"`
	Format string     `help:"Form of the log: text for people, json for machines, auto for text on a terminal and json elsewhere." enum:"auto,text,json" default:"auto"`
}

// NewLogger returns a logger that writes to w.
func NewLogger(w io.Writer, cfg Config) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.Level}
	if cfg.Format == "text" || cfg.Format == "auto" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

func isTerminal(w io.Writer) bool {
	file, isFile := w.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd()))
}

// NewRegistry returns a registry with the metrics of the Go runtime, the process and the build.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
	)
	return registry
}
