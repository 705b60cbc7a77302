package scenario

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// event is a server-sent event.
type event struct {
	id, name string
	run      harness.RunState
}

// watcher reads a stream of server-sent events as a browser does.
type watcher struct {
	t      *testing.T
	status int
	lines  *bufio.Reader
}

// watch opens the stream of a run, from an event on if one is named.
func watch(t *testing.T, s *harness.System, run, lastEventID string) *watcher {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Record().REST+"/v1/runs/"+run+":watch", nil)
	require.NoError(t, err)
	request.Header = s.Header("")
	if lastEventID != "" {
		request.Header.Set("Last-Event-ID", lastEventID)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { response.Body.Close() })
	if response.StatusCode == http.StatusOK {
		require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	}
	return &watcher{t: t, status: response.StatusCode, lines: bufio.NewReader(response.Body)}
}

// next returns the next event; false at the end of the stream.
func (w *watcher) next() (e event, more bool) {
	w.t.Helper()
	var data strings.Builder
	for {
		line, err := w.lines.ReadString('\n')
		if err == io.EOF {
			return event{}, false
		}
		require.NoError(w.t, err)
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			data.WriteString(value)
		case "":
			if data.Len() > 0 {
				require.NoError(w.t, json.Unmarshal([]byte(data.String()), &e.run), data.String())
				return e, true
			}
		}
	}
}

// requireCut fails unless the stream breaks off instead of ending.
func (w *watcher) requireCut() {
	w.t.Helper()
	_, err := io.ReadAll(w.lines)
	require.Error(w.t, err)
}

// rest returns all events until the end of the stream.
func (w *watcher) rest() (events []event) {
	w.t.Helper()
	for {
		e, more := w.next()
		if !more {
			return events
		}
		events = append(events, e)
	}
}

// testWatch follows a run to its end, and comes back in its middle and after its end.
func testWatch(t *testing.T, s *harness.System, p *harness.Provider) {
	release := p.Inject(simulated.Fault{Kind: "hold", Contains: summaryPrompt})
	run, err := extract(s, contracts(t)[9], "watched")
	require.NoError(t, err)
	stream := watch(t, s, run, "")
	var seen event
	for seen.run.CurrentStep == nil || *seen.run.CurrentStep != "summary" {
		var more bool
		seen, more = stream.next()
		require.True(t, more, "the stream ended before its run")
		require.Equal(t, "state", seen.name)
	}

	// Who has that state already is told only what comes after it.
	back := watch(t, s, run, seen.id)
	release()
	first := stream.rest()
	again := back.rest()
	require.NotEmpty(t, again)
	for _, e := range again {
		require.NotEqual(t, seen.id, e.id)
	}
	for _, events := range [][]event{first, again} {
		last := events[len(events)-1]
		require.Equal(t, "done", last.name, "%+v", events)
		require.Equal(t, "done", last.run.Status)
		require.NotEmpty(t, resultOf(t, last.run).Fields)
		for _, e := range events[:len(events)-1] {
			require.Equal(t, "state", e.name)
		}
	}

	// Who has the end is told not to come back.
	require.Equal(t, http.StatusNoContent, watch(t, s, run, first[len(first)-1].id).status)
}
