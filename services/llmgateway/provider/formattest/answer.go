package formattest

import (
	"bytes"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/golden"
	"pawl.internal/services/llmgateway/failure"
	"pawl.internal/services/llmgateway/provider"
)

// show is a reading as text.
func show(r provider.Reading) string {
	var out strings.Builder
	fmt.Fprintf(&out, "finish: %s\n", r.FinishReason)
	if r.RequestID != "" {
		fmt.Fprintf(&out, "request id: %s\n", r.RequestID)
	}
	if f := r.Failure; f.Class != failure.None {
		fmt.Fprintf(&out, "failure: %s %s, answer at fault: %t, wait: %s\n  %s\n", f.Class, f.Reason, f.AnswerAtFault, f.Wait, f.Message)
	}
	if r.UsageKnown {
		fmt.Fprintf(&out, "usage: %+v\n", r.Usage)
	} else {
		out.WriteString("usage: not known\n")
	}
	for _, c := range r.ToolCalls {
		fmt.Fprintf(&out, "call %q: %s %s\n", c.GetId(), c.GetName(), c.GetArguments())
	}
	for _, e := range r.Embeddings {
		fmt.Fprintf(&out, "vector: %v\n", e.GetValues())
	}
	if r.Text != "" {
		fmt.Fprintf(&out, "text:\n%s\n", r.Text)
	}
	return out.String()
}

// exchangeOf is the exchange that brought a body.
func exchangeOf(tb testing.TB, path string) provider.Exchange {
	tb.Helper()
	x := provider.Exchange{Status: http.StatusOK, Body: load(tb, path), Sent: true, Stream: strings.HasSuffix(path, ".sse")}
	if parts := strings.Split(filepath.Base(path), "."); len(parts) == 3 {
		status, err := strconv.Atoi(parts[1])
		require.NoError(tb, err)
		x.Status = status
	}
	return x
}

// answers reads every body. One that came whole and in events reads the same, and also from the store, where nothing is left
// of it but status and body.
func (f Format) answers(t *testing.T) {
	for _, path := range append(bodies(t, "*.json"), bodies(t, "*.sse")...) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			x := exchangeOf(t, path)
			reading := f.Read(x, time.Time{})
			golden.Assert(t, filepath.Join("testdata", "answer", nameOf(path)+".golden"), []byte(show(reading)))
			stored := provider.Exchange{Status: x.Status, Body: x.Body, Sent: true}
			require.Equal(t, reading, f.Read(stored, time.Time{}))
		})
	}
}

// cutStreams cuts every stream at every byte. Until its end it is of unknown fate, and never a success that says less.
func (f Format) cutStreams(t *testing.T) {
	for _, path := range bodies(t, "*.sse") {
		whole := exchangeOf(t, path)
		reading := f.Read(whole, time.Time{})
		if reading.Failure.Class != failure.None {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			end := bytes.LastIndex(whole.Body, []byte(f.End))
			require.Positive(t, end)
			for n := range whole.Body {
				f.cutAt(t, whole.Body[:n], n <= end, reading)
			}
		})
	}
}

func (f Format) cutAt(t *testing.T, body []byte, before bool, whole provider.Reading) {
	t.Helper()
	live := f.Read(provider.Exchange{Status: http.StatusOK, Body: body, Sent: true, Stream: true}, time.Time{})
	stored := f.Read(provider.Exchange{Status: http.StatusOK, Body: body, Sent: true}, time.Time{})
	if before {
		require.Equal(t, failure.Unsure, live.Failure.Class, "cut at byte %d: %s", len(body), show(live))
		require.NotEqual(t, failure.None, stored.Failure.Class, "cut at byte %d: %s", len(body), show(stored))
		return
	}
	if live.Failure.Class == failure.None {
		require.Equal(t, whole.Text, live.Text, "cut at byte %d", len(body))
		require.Equal(t, whole.ToolCalls, live.ToolCalls, "cut at byte %d", len(body))
	}
}

// byTool names the body of a structured answer that comes by a tool.
const byTool = "answer_tool"

// heard streams every answer in small pieces to somebody who listens: what they hear is what is read afterwards, and a stream
// that ends early in due form is of unknown fate.
func (f Format) heard(t *testing.T) {
	for _, path := range bodies(t, "*.sse") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			body := load(t, path)
			text, calls, x := f.stream(t, "text/event-stream", body, nameOf(path) == byTool)
			require.NoError(t, x.Err)
			require.True(t, x.Stream)
			require.Equal(t, string(body), string(x.Body))
			r := f.Read(x, time.Time{})
			if r.Failure.Class != failure.None {
				return
			}
			require.Equal(t, provider.Compact([]byte(r.Text)), provider.Compact([]byte(text)))
			require.Len(t, calls, len(r.ToolCalls))
			for i, c := range r.ToolCalls {
				require.Equal(t, c.GetId(), calls[i].ID)
				require.Equal(t, c.GetName(), calls[i].Name)
				require.Equal(t, c.GetArguments(), provider.Compact([]byte(calls[i].Arguments)))
			}
		})
	}
}

// heardWhole asks for a stream of a server that does not stream: it is all heard at once.
func (f Format) heardWhole(t *testing.T) {
	text, calls, x := f.stream(t, "application/json", load(t, filepath.Join("testdata", "answer", "tools.json")), false)
	require.NoError(t, x.Err)
	require.False(t, x.Stream)
	r := f.Read(x, time.Time{})
	require.Equal(t, r.Text, text)
	require.NotEmpty(t, calls)
	require.Len(t, calls, len(r.ToolCalls))
}

func (f Format) stream(t *testing.T, kind string, body []byte, structured bool) (string, map[int]provider.ToolDelta, provider.Exchange) {
	t.Helper()
	c := f.client(t, provider.Local{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		for rest := body; len(rest) > 0; rest = rest[min(7, len(rest)):] {
			_, _ = w.Write(rest[:min(7, len(rest))])
		}
	})})
	var text strings.Builder
	calls := map[int]provider.ToolDelta{}
	q := questions()["stream"]
	if structured {
		q.Schema = []byte(openSchema)
	}
	q.Heard = func(d provider.Delta) {
		text.WriteString(d.Text)
		if d.Tool != nil {
			so := calls[d.Tool.Index]
			calls[d.Tool.Index] = provider.ToolDelta{ID: so.ID + d.Tool.ID, Name: so.Name + d.Tool.Name, Arguments: so.Arguments + d.Tool.Arguments}
		}
	}
	x := c.Send(t.Context(), q)
	return text.String(), calls, x
}

// keys come back from some servers, in errors; nothing of them is kept.
func (f Format) keys(t *testing.T) {
	c := f.client(t, provider.Local{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Echo", secret)
		w.WriteHeader(http.StatusUnauthorized)
		for _, values := range r.Header {
			_, _ = w.Write([]byte(strings.Join(values, ",")))
		}
	})})
	x := c.Send(t.Context(), questions()["plain"])
	require.NotContains(t, string(x.Body)+x.Header.Get("X-Echo"), secret)
	require.Contains(t, string(x.Body), "[key]", "the key was sent")
	require.Equal(t, failure.Auth, f.Read(x, time.Time{}).Failure.Class)
}
