package provider_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/llmgateway/provider"
)

// sign takes pings for signs of life, "whole" for the end of the answer, and [DONE] for that of the stream.
func sign(e provider.Event) provider.Sign {
	switch {
	case e.Name == "ping":
		return provider.Alive
	case string(e.Data) == "whole":
		return provider.Complete
	case e.Ends():
		return provider.Last
	default:
		return provider.Progress
	}
}

// streamWithin asks a handler of this process, and returns what was heard besides what came of it.
func streamWithin(ctx context.Context, timeouts provider.Timeouts, h http.HandlerFunc) (provider.Exchange, []provider.Event) {
	client := provider.NewClient(clock.System(), provider.Local{Handler: h}, timeouts)
	var heard []provider.Event
	x := client.Stream(ctx, "http://local/v1/x", http.Header{}, []byte("ask"), func(e provider.Event) provider.Sign {
		heard = append(heard, e)
		return sign(e)
	})
	return x, heard
}

// events is a handler that sends the texts as they are, each at once, and then what then does.
func events(then func(r *http.Request), texts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, text := range texts {
			_, _ = io.WriteString(w, text)
			w.(http.Flusher).Flush()
		}
		then(r)
	}
}

func closes(*http.Request)  {}
func breaks(*http.Request)  { panic(http.ErrAbortHandler) }
func hangs(r *http.Request) { <-r.Context().Done() }

func TestAStreamIsToldAndKept(t *testing.T) {
	t.Parallel()
	x, heard := streamWithin(t.Context(), provider.Timeouts{}, events(closes,
		": hello\n\ndata: {\"a\"", ":1}\n\nevent: ping\ndata: {}\n\n", "{\"error\":1}\n", "data: [DONE]\n\n", "data: after the end\n\n"))
	require.NoError(t, x.Err)
	require.True(t, x.Stream)
	require.True(t, x.Sent)
	require.Equal(t, 200, x.Status)
	require.Equal(t, ": hello\n\ndata: {\"a\":1}\n\nevent: ping\ndata: {}\n\n{\"error\":1}\ndata: [DONE]\n\ndata: after the end\n\n", string(x.Body))
	require.Equal(t, heard, slices.Collect(provider.Events(x.Body))[:4], "what is stored says what was heard")
}

func TestAnswersThatAreNoStreams(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		kind   string
	}{
		"refused":           {http.StatusTooManyRequests, "text/event-stream"},
		"does not stream":   {http.StatusOK, "application/json; charset=utf-8"},
		"redirected":        {http.StatusFound, "text/html"},
		"JSON and refused":  {http.StatusInternalServerError, "application/json"},
		"no kind, an error": {http.StatusBadGateway, ""},
	} {
		x, heard := streamWithin(t.Context(), provider.Timeouts{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, "data: 1\n\n")
		})
		require.NoError(t, x.Err, name)
		require.False(t, x.Stream, name)
		require.Empty(t, heard, name)
		require.Equal(t, "data: 1\n\n", string(x.Body), name)
	}
}

// Case 29: 40 pieces, then the connection ends.
func TestAStreamThatBreaksOffKeepsWhatCame(t *testing.T) {
	t.Parallel()
	var texts []string
	for i := range 40 {
		texts = append(texts, fmt.Sprintf("data: {\"piece\":%d}\n\n", i))
	}
	x, heard := streamWithin(t.Context(), provider.Timeouts{}, events(breaks, texts...))
	require.ErrorIs(t, x.Err, io.ErrUnexpectedEOF)
	require.False(t, x.TimedOut)
	require.Len(t, heard, 40)
	require.Equal(t, strings.Join(texts, ""), string(x.Body))

	x, heard = streamWithin(t.Context(), provider.Timeouts{}, events(closes, texts...))
	require.NoError(t, x.Err, "in HTTP's eyes it is whole; the format's reader must see that its end is missing")
	require.Len(t, heard, 40)
	require.Equal(t, strings.Join(texts, ""), string(x.Body))
}

func TestABreakAfterTheAnswerIsWholeIsNoFailure(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]string{"complete": "data: whole\n\n", "last": "data: [DONE]\n\n"} {
		x, _ := streamWithin(t.Context(), provider.Timeouts{}, events(breaks, "data: 1\n\n", last))
		require.NoError(t, x.Err, name)
		require.Equal(t, "data: 1\n\n"+last, string(x.Body), name)
	}
}

// inTime runs a stream under a clock of its own, and says when it ended.
func inTime(t *testing.T, timeouts provider.Timeouts, h http.HandlerFunc) (x provider.Exchange, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		x, _ = streamWithin(t.Context(), timeouts, h)
		took = time.Since(began)
		synctest.Wait()
	})
	return x, took
}

// every sends the text again and again.
func every(d time.Duration, text string) func(w http.ResponseWriter, r *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = clock.Every(r.Context(), clock.System(), d, func(context.Context) {
			_, _ = io.WriteString(w, text)
			w.(http.Flusher).Flush()
		})
	}
}

// Case 33: what keeps the connection open is no progress.
func TestKeepAlivesDoNotExtendTheWaitForTheFirstEvent(t *testing.T) {
	t.Parallel()
	limits := provider.Timeouts{FirstByte: time.Hour, FirstEvent: 2 * time.Second, Idle: time.Hour}
	for name, text := range map[string]string{
		"comments": ": keep-alive\n\n", "blank lines": "\n", "pings": "event: ping\ndata: {\"type\":\"ping\"}\n\n",
		"an event that never ends": "data: 1\n",
	} {
		x, took := inTime(t, limits, every(time.Second, text))
		require.True(t, x.TimedOut, name)
		require.ErrorContains(t, x.Err, "first byte timeout of 2s", name)
		require.Equal(t, 2*time.Second, took, name)
		require.True(t, x.Sent, name)
		require.NotEmpty(t, x.Body, name)
	}
	x, took := inTime(t, limits, func(_ http.ResponseWriter, r *http.Request) { hangs(r) })
	require.True(t, x.TimedOut)
	require.Equal(t, 2*time.Second, took)
}

func TestTheLimitsOfAStream(t *testing.T) {
	t.Parallel()
	first := "data: 1\n\n"
	for name, c := range map[string]struct {
		limits provider.Timeouts
		h      http.HandlerFunc
		says   string
		took   time.Duration
	}{
		"first byte, if no limit is of its own": {
			provider.Timeouts{FirstByte: 3 * time.Second}, events(hangs), "first byte timeout of 3s", 3 * time.Second,
		},
		"idle": {
			provider.Timeouts{FirstEvent: time.Second, Idle: 4 * time.Second}, events(hangs, first), "idle timeout of 4s", 4 * time.Second,
		},
		"total, while events come": {
			provider.Timeouts{Idle: 2 * time.Second, Total: 10500 * time.Millisecond},
			every(time.Second, first), "total timeout of 10.5s",
			10500 * time.Millisecond,
		},
	} {
		x, took := inTime(t, c.limits, c.h)
		require.True(t, x.TimedOut, name)
		require.ErrorContains(t, x.Err, c.says, name)
		require.Equal(t, c.took, took, name)
	}
}

func TestAServerThatKeepsAFinishedStreamOpenDoesNotHoldUpTheAnswer(t *testing.T) {
	t.Parallel()
	x, took := inTime(t, provider.Timeouts{Idle: time.Hour}, events(hangs, "data: 1\n\n", "data: [DONE]\n\n"))
	require.NoError(t, x.Err)
	require.False(t, x.TimedOut)
	require.Equal(t, time.Second, took)
}

func TestTheCallersCauseEndsAStream(t *testing.T) {
	t.Parallel()
	errStop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	x, _ := streamWithin(ctx, provider.Timeouts{}, events(func(r *http.Request) { cancel(errStop); hangs(r) }, "data: 1\n\n"))
	require.ErrorIs(t, x.Err, errStop)
	require.Equal(t, "data: 1\n\n", string(x.Body))
}

func TestStreamsAreReadUpToALimit(t *testing.T) {
	t.Parallel()
	x, _ := streamWithin(t.Context(), provider.Timeouts{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 40 {
			_, _ = io.WriteString(w, "data: "+strings.Repeat("x", 1<<20)+"\n\n")
		}
	})
	require.NoError(t, x.Err)
	require.True(t, x.TooLong)
	require.Len(t, x.Body, provider.MaxBody)
}

func TestEventsAreToldAsTheyCome(t *testing.T) {
	t.Parallel()
	heardFirst := make(chan struct{})
	server := httptest.NewServer(events(func(*http.Request) { <-heardFirst }, "data: 1\n\n"))
	t.Cleanup(server.Close)
	transport := provider.NewTransport(provider.Timeouts{})
	t.Cleanup(transport.CloseIdleConnections)
	client := provider.NewClient(clock.System(), transport, provider.Timeouts{})
	x := client.Stream(t.Context(), server.URL, http.Header{}, []byte("ask"), func(provider.Event) provider.Sign {
		close(heardFirst) // the server ends the answer only then
		return provider.Progress
	})
	require.NoError(t, x.Err)
	require.True(t, x.Stream)
}
