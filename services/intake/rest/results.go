package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/apijson"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
)

// results sends the results of a batch as JSON lines, each as it comes.
func (a *api) results(w http.ResponseWriter, r *http.Request, parameters map[string]string) {
	request := &pawlv1.StreamBatchResultsRequest{}
	var err error
	for name, values := range r.URL.Query() {
		err = errors.Join(err, apijson.SetParameter(request, name, values))
	}
	request.BatchId = parameters["batch_id"]
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var stream grpc.ServerStreamingClient[pawlv1.StreamBatchResultsResponse]
	if err == nil {
		stream, err = a.openResults(ctx, r, request)
	}
	if err != nil {
		a.handleError(ctx, a.mux, nil, w, r, fault.Of(err))
		return
	}
	lines := &lineWriter{w: w, control: http.NewResponseController(w)}
	if err = lines.begin(); err == nil {
		err = lines.relay(stream)
	}
	lines.end(err)
}

// openResults returns the stream when it is known that there is such a batch; so errors still have a status.
func (a *api) openResults(
	ctx context.Context, r *http.Request, request *pawlv1.StreamBatchResultsRequest,
) (grpc.ServerStreamingClient[pawlv1.StreamBatchResultsResponse], error) {
	outgoing, err := runtime.AnnotateContext(ctx, a.mux, r, pawlv1.BatchService_StreamBatchResults_FullMethodName)
	if err != nil {
		return nil, err
	}
	stream, err := a.batches.StreamBatchResults(outgoing, request)
	if err != nil {
		return nil, err
	}
	if header, err := stream.Header(); err != nil || header != nil {
		return stream, err
	}
	_, err = stream.Recv() // it was refused
	return nil, err
}

// lineWriter writes JSON lines.
type lineWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (l *lineWriter) begin() error {
	// The limits on reading a request and writing an answer do not fit a stream; each line has its own.
	if err := l.control.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	header := l.w.Header()
	header.Set("Content-Type", contentLines)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no")
	l.w.WriteHeader(http.StatusOK)
	return l.control.Flush()
}

// relay writes what the stream brings until its end.
func (l *lineWriter) relay(stream grpc.ServerStreamingClient[pawlv1.StreamBatchResultsResponse]) error {
	for {
		next, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = l.write(next.GetResult())
		}
		if err != nil {
			return err
		}
	}
}

func (l *lineWriter) write(result *pawlv1.BatchResult) error {
	text, err := apijson.Marshal(result)
	if err != nil {
		return err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil { // a result keeps its own line breaks
		return err
	}
	line.WriteByte('\n')
	// Connections go by the machine's time, whichever clock the timers follow.
	if err := l.control.SetWriteDeadline(clock.System().Now().Add(writeTime)); err != nil {
		return err
	}
	if _, err := l.w.Write(line.Bytes()); err != nil {
		return err
	}
	return l.control.Flush()
}

// end ends the answer. One that was cut off must not look like a whole one: the last chunk cannot be written behind its time,
// and the connection is closed without it.
func (l *lineWriter) end(err error) {
	if err != nil {
		_ = l.control.SetWriteDeadline(time.Unix(1, 0)) // fails only on a connection that is gone
		return
	}
	_ = l.control.SetWriteDeadline(time.Time{})
}
