package llmgateway_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/llmgateway"
	"pawl.internal/services/testkit"
)

// modelsFile is a models file behind a link, as a mounted ConfigMap is.
type modelsFile struct {
	t       *testing.T
	folder  string
	version int
}

func (m *modelsFile) path() string { return filepath.Join(m.folder, "data", "models.yaml") }

// swap makes the content the file's, by swapping the link.
func (m *modelsFile) swap(content string) {
	m.t.Helper()
	m.version++
	version := fmt.Sprint("v", m.version)
	require.NoError(m.t, os.Mkdir(filepath.Join(m.folder, version), 0o700))
	require.NoError(m.t, os.WriteFile(filepath.Join(m.folder, version, "models.yaml"), []byte(content), 0o600))
	next := filepath.Join(m.folder, "next")
	require.NoError(m.t, os.Symlink(version, next))
	require.NoError(m.t, os.Rename(next, filepath.Join(m.folder, "data")))
}

// A new models file is taken over while calls go on: those in flight end with what the old one said, none fails, and what was
// answered is replayed although nobody knows its provider any more. One that is not valid changes nothing.
func TestTheModelsFileIsTakenOverWhileCallsGoOn(t *testing.T) {
	b := newBench(t)
	content, err := os.ReadFile(b.models())
	require.NoError(t, err)
	file := &modelsFile{t: t, folder: t.TempDir()}
	file.swap(string(content))
	g := b.gateway(func(c *llmgateway.Config) { c.ModelsFile = file.path() })

	var failed, answered atomic.Int64
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				s, err := g.ask(t.Context(), b.question(b.ids.V7(), "a"))
				if err != nil || s.answer == nil {
					failed.Add(1)
				}
				answered.Add(1)
			}
		})
	}
	old := b.question(b.ids.V7(), "kept")
	require.Equal(t, "main", g.answer(t, old).GetProvider())

	// The default route goes to the other provider, and main is gone.
	changed := string(content)
	changed = strings.ReplaceAll(changed, "name: main", "name: other")
	changed = strings.ReplaceAll(changed, "provider: main", "provider: other")
	changed = strings.ReplaceAll(changed, b.main.url, b.spare.url)
	letGo := b.main.hold(t)
	inFlight := make(chan story, 1)
	q := b.question(b.ids.V7(), "in flight")
	go func() {
		s, _ := g.ask(t.Context(), q)
		inFlight <- s
	}()
	b.main.awaitInFlight(t, 5)
	file.swap(changed)
	testkit.Eventually(t, patience, func() error {
		if g.metric(t, "pawl_llm_gateway_breaker_open", "other/small") < 0 {
			return fmt.Errorf("the file is not in use yet")
		}
		return nil
	})
	require.Equal(t, "other", g.answer(t, b.question(b.ids.V7(), "b")).GetProvider())
	letGo()
	ended := <-inFlight
	require.Equal(t, "main", ended.answer.GetProvider(), "what has begun ends as it began: %v", ended.failure)
	require.True(t, g.answer(t, old).GetReplayed())
	require.InDelta(t, 1, g.metric(t, "pawl_llm_gateway_models_file_valid"), 0)
	require.InDelta(t, -1, g.metric(t, "pawl_llm_gateway_breaker_open", "main/small"), 0, "gone")

	file.swap(strings.Replace(changed, "kind: openai", "kind: opnai", 1))
	testkit.Eventually(t, patience, func() error {
		if g.metric(t, "pawl_llm_gateway_models_file_valid") != 0 {
			return fmt.Errorf("the file is not read yet")
		}
		return nil
	})
	require.Contains(t, b.log.String(), "opnai")
	require.Equal(t, "other", g.answer(t, b.question(b.ids.V7(), "c")).GetProvider(), "what was before stays in use")
	file.swap(string(content))
	testkit.Eventually(t, patience, func() error {
		s, err := g.ask(t.Context(), b.question(b.ids.V7(), "d"))
		if err != nil || s.answer.GetProvider() != "main" {
			return fmt.Errorf("the file is not in use yet: %v %w", s.answer, err)
		}
		return nil
	})
	close(stop)
	load.Wait()
	require.Zero(t, failed.Load(), "of %d", answered.Load())
	require.Positive(t, answered.Load())
	b.balanced()
}
