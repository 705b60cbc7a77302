package steprunner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/pipeline"
)

// library is an orchestrator that knows pipelines only: the digest's text is the version's number.
type library struct {
	systemv1.OrchestratorServiceClient

	mu      sync.Mutex
	asked   []string // guarded by mu
	failing []error  // guarded by mu; what the next answers are
	hold    chan struct{}
}

func (l *library) GetPipeline(
	_ context.Context, req *systemv1.GetPipelineRequest, _ ...grpc.CallOption,
) (*systemv1.GetPipelineResponse, error) {
	if l.hold != nil {
		<-l.hold
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, string(req.GetDigest()))
	if len(l.failing) > 0 {
		err := l.failing[0]
		l.failing = l.failing[1:]
		return nil, err
	}
	return &systemv1.GetPipelineResponse{Pipeline: &pawlv1.Pipeline{
		Source: fmt.Sprintf("name: p\nversion: v%s\nsteps: [{name: it, transform: 1}]", req.GetDigest()),
	}}, nil
}

func keeping(t *testing.T, l *library, size int) *pipelines {
	t.Helper()
	compiler, err := pipeline.NewCompiler()
	require.NoError(t, err)
	return newPipelines(l, compiler, clock.System(), size)
}

func TestPipelinesUsedLastAreKept(t *testing.T) {
	t.Parallel()
	l := &library{}
	p := keeping(t, l, 2)
	for _, digest := range []string{"1", "2", "1", "3", "1", "2"} {
		compiled, err := p.get(t.Context(), "acme", []byte(digest))
		require.NoError(t, err)
		require.Equal(t, "v"+digest, compiled.Version)
	}
	require.Equal(t, []string{"1", "2", "3", "2"}, l.asked)
	require.Len(t, p.byDigest, 2)
	require.Equal(t, 2, p.recent.Len())
}

func TestPipelineIsFetchedOnceForAllWhoWait(t *testing.T) {
	t.Parallel()
	l := &library{hold: make(chan struct{})}
	p := keeping(t, l, 2)
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.get(impatient, "acme", []byte("1"))
	require.ErrorIs(t, err, context.Canceled, "the one who began the fetch does not wait for it")
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			compiled, err := p.get(t.Context(), "acme", []byte("1"))
			if err != nil || compiled.Version != "v1" {
				t.Errorf("got %v, %v", compiled, err)
			}
		})
	}
	close(l.hold)
	all.Wait()
	require.Equal(t, []string{"1"}, l.asked)
}

func TestFetchIsRepeatedOnlyWhenTheOrchestratorIsAway(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	l := &library{failing: []error{fault.Unavailable(nil, "away"), fault.Unavailable(nil, "away"), broken}}
	p := keeping(t, l, 2)
	_, err := p.get(t.Context(), "acme", []byte("1"))
	require.ErrorIs(t, err, broken)
	_, err = p.get(t.Context(), "acme", []byte("1"))
	require.NoError(t, err)
	require.Len(t, l.asked, 4)
}
