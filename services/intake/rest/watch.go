package rest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/apijson"
	"pawl.internal/services/internal/clock"
)

const (
	// heartbeatEvery keeps proxies from closing a stream on which nothing happens.
	heartbeatEvery = 15 * time.Second
	// reconnectAfter is what clients are told to wait before they come back, in milliseconds.
	reconnectAfter = 3000
	// writeTime bounds the writing of one event: a client that does not read must not be held for ever.
	writeTime = 10 * time.Second
)

// watch streams a run as server-sent events: `state` for every change, `done` for the last. An event's id is the run's
// etag, so a client that comes back with Last-Event-ID gets only what is new to it, and 204 when there will be nothing.
func (a *api) watch(w http.ResponseWriter, r *http.Request, parameters map[string]string) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	outgoing, err := runtime.AnnotateContext(ctx, a.mux, r, pawlv1.RunService_WatchRun_FullMethodName)
	if err != nil {
		a.handleError(ctx, a.mux, nil, w, r, err)
		return
	}
	stream, err := a.runs.WatchRun(outgoing, &pawlv1.WatchRunRequest{RunId: parameters["run_id"]})
	if err != nil {
		a.handleError(ctx, a.mux, nil, w, r, err)
		return
	}
	first, err := stream.Recv()
	if err != nil {
		a.handleError(ctx, a.mux, nil, w, r, err)
		return
	}
	known := r.Header.Get("Last-Event-Id")
	if known != "" && known == first.GetRun().GetEtag() && runEnded(first.GetRun().GetStatus()) {
		w.WriteHeader(http.StatusNoContent) // tells an EventSource not to come back
		return
	}
	events := &eventWriter{api: a, w: w, control: http.NewResponseController(w)}
	defer events.end()
	if events.begin() != nil {
		return
	}
	if known != first.GetRun().GetEtag() && events.state(first.GetRun()) != nil {
		return
	}
	a.relay(ctx, events, stream)
}

// relay sends what the stream brings, and heartbeats, until either side ends. The client comes back when it was cut off.
func (a *api) relay(ctx context.Context, events *eventWriter, stream grpc.ServerStreamingClient[pawlv1.WatchRunResponse]) {
	runs := make(chan *pawlv1.Run)
	go func() {
		defer close(runs)
		for {
			next, err := stream.Recv()
			if err != nil {
				return // io.EOF after the last state; else the client finds out by coming back
			}
			select {
			case runs <- next.GetRun():
			case <-ctx.Done():
				return
			}
		}
	}()
	timer := a.Clock.NewTimer(heartbeatEvery)
	defer timer.Stop()
	for {
		var err error
		select {
		case run, more := <-runs:
			if !more {
				return
			}
			err = events.state(run)
		case <-timer.C():
			err = events.heartbeat()
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
		timer.Reset(heartbeatEvery)
	}
}

// eventWriter writes server-sent events.
type eventWriter struct {
	api     *api
	w       http.ResponseWriter
	control *http.ResponseController
}

func (e *eventWriter) begin() error {
	// The limits on reading a request and writing an answer do not fit a stream; each event has its own.
	if err := e.control.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	header := e.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no")
	e.w.WriteHeader(http.StatusOK)
	return e.write(fmt.Appendf(nil, "retry: %d\n\n", reconnectAfter))
}

// end frees the connection, which may carry other requests, of the last event's limit.
func (e *eventWriter) end() { _ = e.control.SetWriteDeadline(time.Time{}) } // fails only on a connection that is gone

func (e *eventWriter) state(run *pawlv1.Run) error {
	text, err := apijson.Marshal(run)
	if err != nil {
		e.api.Log.Error("run cannot be written as JSON", "run_id", run.GetRunId(), "error", err)
		return err
	}
	name := "state"
	if runEnded(run.GetStatus()) {
		name = "done"
	}
	var event bytes.Buffer
	fmt.Fprintf(&event, "id: %s\nevent: %s\n", run.GetEtag(), name)
	for line := range bytes.SplitSeq(bytes.ReplaceAll(text, []byte{'\r'}, []byte{'\n'}), []byte{'\n'}) {
		fmt.Fprintf(&event, "data: %s\n", line) // a result keeps its own line breaks
	}
	event.WriteByte('\n')
	return e.write(event.Bytes())
}

func (e *eventWriter) heartbeat() error { return e.write([]byte(": still here\n\n")) }

func (e *eventWriter) write(text []byte) error {
	// Connections go by the machine's time, whichever clock the timers follow.
	if err := e.control.SetWriteDeadline(clock.System().Now().Add(writeTime)); err != nil {
		return err
	}
	if _, err := e.w.Write(text); err != nil {
		return err
	}
	return e.control.Flush()
}
