package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/apijson"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/jsonlines"
)

const (
	contentLines = "application/jsonl"
	// readPause bounds the wait for the next piece of an upload: a client that does not send must not be held for ever.
	readPause = 30 * time.Second
	// discardTime bounds the reading of what nobody wants any more.
	discardTime = 5 * time.Second
)

// lineTypes are the types under which JSON lines are sent.
func lineTypes() []string { return []string{contentLines, "application/x-ndjson"} }

// upload takes a batch as JSON lines, an item each, and hands the items on as they come: it holds one line.
func (a *api) upload(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	header, err := uploadHeader(r)
	if err != nil {
		a.handleError(r.Context(), a.mux, nil, w, r, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel() // before the body's end it says that the upload was cut off
	answer, err := a.sendBatch(ctx, w, r, header)
	if err != nil {
		discard(w, r, int64(a.MaxBatchBytes))
		a.handleError(r.Context(), a.mux, nil, w, r, byLine(err))
		return
	}
	text, err := jsonBody{}.Marshal(answer)
	if err != nil {
		a.handleError(r.Context(), a.mux, nil, w, r, err)
		return
	}
	w.Header().Set("Content-Type", contentJSON)
	_ = describeAnswer(ctx, w, answer) // has no error of its own
	_, _ = w.Write(text)               // the caller went away: nobody is left to tell
}

// discard reads some of what is still coming: a caller that is still sending would lose the answer with a connection that is
// closed under it.
func discard(w http.ResponseWriter, r *http.Request, most int64) {
	if http.NewResponseController(w).SetReadDeadline(clock.System().Now().Add(discardTime)) == nil {
		_, _ = io.CopyN(io.Discard, r.Body, most)
	}
}

// uploadHeader reads what the batch is from the query.
func uploadHeader(r *http.Request) (*pawlv1.BatchHeader, error) {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || !slices.Contains(lineTypes(), mediaType) {
		return nil, errMediaType("an upload is JSON lines, %s, not %q", strings.Join(lineTypes(), " or "), r.Header.Get("Content-Type"))
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT,
			fault.Violation{Field: "query", Message: "cannot be read: " + err.Error()})
	}
	header := &pawlv1.BatchHeader{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := setHeader(header, name, values[name]); err != nil {
			return nil, err
		}
	}
	return header, nil
}

// setHeader sets one field. Labels are given as labels=name:value, again for each.
func setHeader(header *pawlv1.BatchHeader, name string, values []string) error {
	refuse := func(message string) error {
		return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, fault.Violation{Field: name, Message: message})
	}
	switch name {
	case "labels":
		header.Labels = map[string]string{}
		for _, text := range values {
			label, value, ok := strings.Cut(text, ":")
			if !ok {
				return refuse("must be name:value")
			}
			header.Labels[label] = value
		}
		return nil
	case "deadline":
		d, err := time.ParseDuration(values[0])
		if err != nil || len(values) > 1 {
			return refuse(`must be one duration such as "3600s"`)
		}
		header.Deadline = durationpb.New(d)
		return nil
	default:
		return apijson.SetParameter(header, name, values)
	}
}

// sendBatch streams the body's lines to intake.
func (a *api) sendBatch(
	ctx context.Context, w http.ResponseWriter, r *http.Request, header *pawlv1.BatchHeader,
) (*pawlv1.UploadBatchResponse, error) {
	outgoing, err := runtime.AnnotateContext(ctx, a.mux, r, pawlv1.BatchService_UploadBatch_FullMethodName)
	if err != nil {
		return nil, err
	}
	stream, err := a.batches.UploadBatch(outgoing)
	if err != nil {
		return nil, err
	}
	err = stream.Send(&pawlv1.UploadBatchRequest{Part: &pawlv1.UploadBatchRequest_Batch{Batch: header}})
	body := &pausedReader{body: r.Body, control: http.NewResponseController(w)}
	if err == nil {
		err = a.sendLines(stream, body)
	}
	body.end()                                 // the server reads on to learn whether the caller leaves, and has no reason to give up
	if err != nil && !errors.Is(err, io.EOF) { // io.EOF: intake has ended the stream, and says why in its answer
		return nil, err
	}
	return stream.CloseAndRecv()
}

func (a *api) sendLines(
	stream grpc.ClientStreamingClient[pawlv1.UploadBatchRequest, pawlv1.UploadBatchResponse], body io.Reader,
) error {
	lines := jsonlines.New(body, a.MaxBodyBytes)
	for {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fault.New(faultv1.ErrorReason_ERROR_REASON_MALFORMED_BODY, "the body could not be read to its end").WithCause(err)
		}
		if err := stream.Send(jsonlines.Item(line, a.MaxBodyBytes)); err != nil {
			return err
		}
	}
}

// itemPath is how intake names a part of an item.
var itemPath = regexp.MustCompile(`^items\[(\d+)\]\.?`)

// byLine names things as the caller of an upload knows them: lines for items, parameters for fields of the batch.
func byLine(err error) error {
	f := fault.FromStatus(err)
	for i, v := range f.Violations {
		if found := itemPath.FindStringSubmatch(v.Field); found != nil {
			index, _ := strconv.Atoi(found[1]) // the expression has only digits
			f.Violations[i].Field = strings.TrimSuffix(fmt.Sprintf("line %d: %s", index+1, v.Field[len(found[0]):]), ": ")
		}
		f.Violations[i].Field = strings.TrimPrefix(f.Violations[i].Field, "batch.")
	}
	return f
}

// pausedReader reads a body that may take long, but no piece of it may.
type pausedReader struct {
	body    io.Reader
	control *http.ResponseController
}

// Read waits at most readPause. Connections go by the machine's time, whichever clock the timers follow.
func (p *pausedReader) Read(into []byte) (int, error) {
	if err := p.control.SetReadDeadline(clock.System().Now().Add(readPause)); err != nil {
		return 0, err
	}
	return p.body.Read(into)
}

// end frees the connection, which may carry other requests, of the last piece's limit.
func (p *pausedReader) end() { _ = p.control.SetReadDeadline(time.Time{}) } // fails only on a connection that is gone
