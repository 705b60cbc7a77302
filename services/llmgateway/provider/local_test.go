package provider_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/llmgateway/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// post sends a body to a handler of this process.
func post(ctx context.Context, h http.HandlerFunc) provider.Exchange {
	return postWithin(ctx, provider.Timeouts{}, h)
}

func postWithin(ctx context.Context, timeouts provider.Timeouts, h http.HandlerFunc) provider.Exchange {
	client := provider.NewClient(clock.System(), provider.Local{Handler: h}, timeouts)
	return client.Post(ctx, "http://local/v1/chat/completions", http.Header{"X-A": {"b"}}, []byte("ask"))
}

func TestLocalAnswers(t *testing.T) {
	t.Parallel()
	x := post(t.Context(), func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
		w.Header().Set("Retry-After", "too late")
		_, _ = io.WriteString(w, string(body)+" "+r.Header.Get("X-A")+" "+r.URL.Path)
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, "!")
	})
	require.NoError(t, x.Err)
	require.Equal(t, 429, x.Status)
	require.Equal(t, "7", x.Header.Get("Retry-After"))
	require.Equal(t, "ask b /v1/chat/completions!", string(x.Body))
	require.True(t, x.Sent)
}

func TestLocalSaysNothingAtAll(t *testing.T) {
	t.Parallel()
	x := post(t.Context(), func(http.ResponseWriter, *http.Request) {})
	require.NoError(t, x.Err)
	require.Equal(t, 200, x.Status)
	require.Empty(t, x.Body)
}

func TestLocalCutsTheConnection(t *testing.T) {
	t.Parallel()
	before := post(t.Context(), func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	require.ErrorIs(t, before.Err, io.EOF)
	require.Equal(t, 0, before.Status)
	require.True(t, before.Sent)

	amid := post(t.Context(), func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	})
	require.ErrorIs(t, amid.Err, io.ErrUnexpectedEOF)
	require.Equal(t, "half", string(amid.Body))
}

func TestLocalHangs(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"before the answer": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"amid the answer": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "half")
			<-r.Context().Done()
		},
	} {
		x := postWithin(t.Context(), provider.Timeouts{FirstByte: 50 * time.Millisecond, Idle: 50 * time.Millisecond}, h)
		require.True(t, x.TimedOut, name)
		require.ErrorContains(t, x.Err, "timeout", name)
	}
}

func TestLocalIsGivenUp(t *testing.T) {
	t.Parallel()
	errStop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	wrote := make(chan error)
	x := post(ctx, func(w http.ResponseWriter, r *http.Request) {
		cancel(errStop)
		<-r.Context().Done()
		go func() {
			_, err := w.Write([]byte("nobody reads this"))
			wrote <- err
		}()
	})
	require.ErrorIs(t, x.Err, errStop)
	require.Error(t, <-wrote)
}

func TestAnswersAreReadUpToALimit(t *testing.T) {
	t.Parallel()
	x := post(t.Context(), func(w http.ResponseWriter, _ *http.Request) {
		for range 40 {
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		}
	})
	require.NoError(t, x.Err)
	require.True(t, x.TooLong)
	require.Len(t, x.Body, provider.MaxBody)
}
