package chaos

import (
	"embed"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"pawl.internal/e2e/harness"
)

const (
	// mostRuns and leastRuns bound what is submitted while a fault happens, and warmUp is how much is accepted before it
	// strikes and after it is over.
	mostRuns  = 60
	leastRuns = 20
	warmUp    = 10
	// defaultPace is the time between two submits. Clients do not wait for each other.
	defaultPace = 200 * time.Millisecond
	// brisk is the pace for faults that are over in a moment, and should find much in flight.
	brisk = 60 * time.Millisecond
)

//go:embed testdata/*.yaml
var pipelines embed.FS

// mix is what is submitted, in turn.
func mix() []string { return []string{"chaos_llm", "chaos_transform", "chaos_fan"} }

// register stores pipelines of the suite's.
func register(t *testing.T, f *harness.Fleet, names ...string) {
	t.Helper()
	for _, name := range names {
		source, err := pipelines.ReadFile("testdata/" + name + ".yaml")
		require.NoError(t, err)
		stored := f.API.Do(http.MethodPost, "/v1/pipelines", "", map[string]any{"source": string(source), "file_name": name + ".yaml"})
		require.NoError(t, stored.Decode(nil))
	}
}

// load is work that clients submit at a steady pace, each submit repeated under its key until it is accepted.
type load struct {
	t    *testing.T
	api  *harness.System
	name string

	stop    chan struct{}
	clients errgroup.Group

	mu       sync.Mutex
	accepted []string // guarded by mu; ids of runs, in the order of their acceptance
	err      error    // guarded by mu; a submit that was given up
}

// submit begins to submit. The name must be one of a kind: it is part of every prompt, so that no two runs ask the same.
func submit(t *testing.T, f *harness.Fleet, name string, pace time.Duration) *load {
	t.Helper()
	if pace == 0 {
		pace = defaultPace
	}
	l := &load{t: t, api: f.API, name: name, stop: make(chan struct{})}
	l.clients.Go(func() error {
		ticker := time.NewTicker(pace)
		defer ticker.Stop()
		for i := range mostRuns {
			select {
			case <-ticker.C:
				l.clients.Go(func() error { return l.submitOne(i) })
			case <-l.stop:
				return nil
			}
		}
		return nil
	})
	return l
}

func (l *load) submitOne(i int) error {
	text := fmt.Sprintf("%s, document %d.", l.name, i)
	run, err := l.api.Submit(mix()[i%len(mix())], text, map[string]any{"text": text}, func(body map[string]any) {
		body["entity_id"], body["callback_url"] = l.name, "https://example.com/hook"
		body["class"] = []string{"interactive", "batch"}[i/len(mix())%2]
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.err = errors.Join(l.err, err)
		return err
	}
	l.accepted = append(l.accepted, run)
	return nil
}

// count is how many runs have been accepted so far.
func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accepted)
}

// awaitAccepted waits until so many runs have been accepted.
func (l *load) awaitAccepted(n int) {
	l.t.Helper()
	harness.Eventually(l.t, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.err != nil {
			return l.err
		}
		if len(l.accepted) < n {
			return fmt.Errorf("%d runs are accepted, not %d", len(l.accepted), n)
		}
		return nil
	})
}

// finish stops submitting, waits for the answers that are owed, and returns the runs.
func (l *load) finish() []string {
	l.t.Helper()
	close(l.stop)
	require.NoError(l.t, l.clients.Wait())
	return l.accepted
}
