package bench

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Config says what is measured, and how much of it.
type Config struct {
	// Program is the pawl binary; Root is the folder of the repository.
	Program, Root string
	// IdleRuns and LoadRuns are how many runs are measured idle and under load.
	IdleRuns, LoadRuns int
	// Submits is how long submits are measured, at SubmitRate a second.
	Submits    time.Duration
	SubmitRate int
	// Profiles is a folder for processor profiles of the load; empty for none.
	Profiles string
}

// row is one line of the report: what, its value, and a remark.
type row struct{ what, value, remark string }

// Run measures and writes the report as a Markdown table. What the system logs goes to log.
func Run(ctx context.Context, cfg Config, report, log io.Writer) (err error) {
	s, err := start(ctx, cfg.Program, log)
	if err != nil {
		return err
	}
	s.profiles = cfg.Profiles
	defer func() {
		if stopErr := s.stop(); err == nil {
			err = stopErr
		}
	}()
	fmt.Fprintf(report, "%s/%s, %d processors, %s\n\n| measure | value | remark |\n| --- | --- | --- |\n",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	for _, measure := range s.measures(cfg) {
		rows, err := measure(ctx)
		if err != nil {
			return err
		}
		for _, r := range rows {
			fmt.Fprintf(report, "| %s | %s | %s |\n", r.what, r.value, r.remark)
		}
	}
	return nil
}

// measures lists what is measured, in order.
func (s *system) measures(cfg Config) []func(context.Context) ([]row, error) {
	one := func(r row, err error) ([]row, error) { return []row{r}, err }
	const transforms, models = "transform_chain", "llm_chain"
	return []func(context.Context) ([]row, error){
		func(ctx context.Context) ([]row, error) {
			return nil, s.apply(ctx, filepath.Join(cfg.Root, "examples", "pipelines", "transform_chain.yaml"))
		},
		func(ctx context.Context) ([]row, error) {
			return nil, s.apply(ctx, filepath.Join(cfg.Root, "e2e", "bench", "testdata", "llm_chain.yaml"))
		},
		func(ctx context.Context) ([]row, error) { // caches and connections fill
			_, err := s.idle(ctx, transforms, 20)
			return nil, err
		},
		func(ctx context.Context) ([]row, error) { return nil, s.measureIdleSyncs(ctx) },
		func(ctx context.Context) ([]row, error) { return s.idle(ctx, transforms, cfg.IdleRuns) },
		func(ctx context.Context) ([]row, error) {
			return one(s.submits(ctx, "/v1/runs", `{"pipeline":"transform_chain","input":{"n":1}}`, cfg.SubmitRate, cfg.Submits))
		},
		func(ctx context.Context) ([]row, error) { return one(s.throughput(ctx, transforms, cfg.LoadRuns)) },
		func(ctx context.Context) ([]row, error) { return s.idle(ctx, models, cfg.IdleRuns) },
		func(ctx context.Context) ([]row, error) {
			body := `{"model":"default","messages":[{"role":"user","content":"Hello"}],"max_tokens":50}`
			return one(s.submits(ctx, "/v1/jobs", body, cfg.SubmitRate, cfg.Submits))
		},
		func(ctx context.Context) ([]row, error) { return one(s.throughput(ctx, models, cfg.LoadRuns/3)) },
	}
}

// sample is a set of measured times.
type sample []time.Duration

// String gives the median and what one in twenty exceeds.
func (s sample) String() string {
	if len(s) == 0 {
		return "nothing measured"
	}
	sorted := slices.Sorted(slices.Values(s))
	at := func(share float64) string { return millis(sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]) }
	return fmt.Sprintf("p50 %s, p95 %s", at(0.50), at(0.95))
}

// millis writes a time in milliseconds.
func millis(d time.Duration) string {
	text := fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond))
	return strings.TrimSuffix(text, ".00") + " ms"
}
