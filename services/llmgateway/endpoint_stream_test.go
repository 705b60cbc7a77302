package llmgateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// speaking is a provider that says a word of a streamed answer, and the rest when it is told to.
func speaking(t *testing.T, rest string) (url string, letGo func()) {
	t.Helper()
	told := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(asked), `"stream":true`) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"error":{"message":"busy","code":"server_is_overloaded"}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"Once"},"finish_reason":null}]}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
		<-told
		_, _ = io.WriteString(w, rest)
	}))
	t.Cleanup(server.Close)
	letGo = func() { close(told) }
	return server.URL + "/v1", letGo
}

const restOfTheTale = `data: {"choices":[{"index":0,"delta":{"content":" upon"},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}

data: [DONE]

`

// listener reads the events of a stream as they come.
type listener struct {
	*http.Response
	lines *bufio.Reader
}

func (g *gateway) listen(t *testing.T, route, key string) *listener {
	t.Helper()
	body := strings.NewReader(fmt.Sprintf(
		`{"model":%q,"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Tell"}]}`, route))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.service.EndpointAddress()+"/v1/chat/completions", body)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+endpointKey)
	request.Header.Set("Idempotency-Key", key)
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { response.Body.Close() })
	require.Equal(t, 200, response.StatusCode)
	return &listener{response, bufio.NewReader(response.Body)}
}

// next is the data of the next event.
func (l *listener) next(t *testing.T) string {
	t.Helper()
	for {
		line, err := l.lines.ReadString('\n')
		require.NoError(t, err)
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
			return data
		}
	}
}

func TestTheEndpointForwardsPiecesAsTheyCome(t *testing.T) {
	b := newBench(t)
	var letGo func()
	b.main.url, letGo = speaking(t, restOfTheTale)
	g := b.gateway(withEndpoint)
	first := g.listen(t, "default", "k")
	require.Contains(t, first.next(t), `"role":"assistant"`)
	require.Contains(t, first.next(t), `"model":"small","choices":[{"index":0,"delta":{"content":"Once"}`)
	late := g.listen(t, "default", "k")
	require.Equal(t, "true", late.Header.Get("X-Pawl-Replayed"))
	late.next(t)
	require.Contains(t, late.next(t), `"delta":{"content":"Once"}`, "who comes late hears all of it")
	letGo()
	for _, l := range []*listener{first, late} {
		require.Contains(t, l.next(t), `"delta":{"content":" upon"}`)
		require.Contains(t, l.next(t), `"finish_reason":"stop"`)
		require.Contains(t, l.next(t), `"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9`)
		require.Equal(t, "[DONE]", l.next(t))
	}
	whole := g.listen(t, "default", "k")
	whole.next(t)
	require.Contains(t, whole.next(t), `"delta":{"content":"Once upon"}`, "a stored answer comes in one piece")
	require.Equal(t, 1, one[int](b, `SELECT count(*) FROM llm.llm_try`))
	b.balanced()
}

// What was told cannot be taken back: when the first target fails in the middle of its answer, the stream says so and ends,
// and the next target is not asked.
func TestTheEndpointDoesNotGoOnWithAnotherModelInTheMiddleOfAnAnswer(t *testing.T) {
	b := newBench(t)
	var letGo func()
	b.main.url, letGo = speaking(t, `data: {"error":{"message":"busy","code":"server_is_overloaded","type":"service_unavailable_error"}}`+"\n\n")
	g := b.gateway(withEndpoint)
	l := g.listen(t, "wide", "k")
	l.next(t)
	require.Contains(t, l.next(t), `"delta":{"content":"Once"}`)
	letGo()
	require.Contains(t, l.next(t), `{"error":{"message":`)
	rest, err := io.ReadAll(l.lines)
	require.NoError(t, err)
	require.NotContains(t, string(rest), "DONE")
	require.Zero(t, b.spare.received())

	// Before anything was told another target is welcome.
	whole := strings.Replace(strings.Replace(hello, "default", "wide", 1), "Hello", "Another", 1)
	require.Contains(t, g.chat(t, 200, whole).body, `"model":"large"`)
	require.Equal(t, 1, b.spare.received())
}
