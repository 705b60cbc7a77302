package intake_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
)

// errCut is how cutBody ends.
var errCut = errors.New("the connection is cut")

// cutBody is a body that breaks off when what was sent of it has had its effect.
type cutBody struct {
	text  string
	until func() bool
}

func (c *cutBody) Read(into []byte) (int, error) {
	if c.text == "" {
		for !c.until() {
			<-time.After(time.Millisecond) //nolint:forbidigo // a body has no test to wait with
		}
		return 0, errCut
	}
	n := copy(into, c.text)
	c.text = c.text[n:]
	return n, nil
}

func landed(name string, status pawlv1.RunStatus, second int64) *pawlv1.BatchResult {
	return &pawlv1.BatchResult{
		CustomId: name, RunId: "01890000-0000-7000-8000-00000000000" + name, Status: status, CostUsd: "0.001",
		FinishedAt: &timestamppb.Timestamp{Seconds: second}, Result: &pawlv1.JsonValue{Json: "{\n\"a\": 1.50}"},
	}
}

// resultLines reads results as they come.
type resultLines struct {
	t        *testing.T
	response *http.Response
	reader   *bufio.Reader
}

func (b *bundle) follow(t *testing.T, id, query string) *resultLines {
	t.Helper()
	response := b.open(t, b.acme, "GET", "/v1/batches/"+id+"/results"+query, "")
	t.Cleanup(func() { response.Body.Close() })
	require.Equal(t, 200, response.StatusCode)
	require.Equal(t, "application/jsonl", response.Header.Get("Content-Type"))
	return &resultLines{t, response, bufio.NewReader(response.Body)}
}

func (r *resultLines) next() string {
	r.t.Helper()
	line, err := r.reader.ReadString('\n')
	if errors.Is(err, io.EOF) && line == "" {
		return "end"
	}
	require.NoError(r.t, err)
	_, after, _ := strings.Cut(line, `"custom_id":"`)
	name, _, _ := strings.Cut(after, `"`)
	require.Contains(r.t, line, `"result":{"a":1.50}`, "one line")
	return name
}

func TestResultsAreSentAsTheyLand(t *testing.T) {
	t.Parallel()
	const done, failed = pawlv1.RunStatus_RUN_STATUS_DONE, pawlv1.RunStatus_RUN_STATUS_FAILED
	b := setup(t)
	b.call(t, b.acme, "POST", uploadPath, lines(9), asLines, "Idempotency-Key: k")
	id, _ := b.orchestrator.only()
	follow := b.follow(t, id, "?follow=true")
	require.Equal(t, "end", b.follow(t, id, "").next(), "who does not follow gets what there is")
	b.orchestrator.land(id, landed("1", done, 1), landed("2", failed, 2))
	require.Equal(t, "1", follow.next())
	require.Equal(t, "2", follow.next())
	b.orchestrator.setAway(fault.Unavailable(errors.New("down"), "away"))
	b.orchestrator.land(id, landed("2", done, 3)) // was retried
	b.orchestrator.setAway(nil)
	require.Equal(t, "2", follow.next())
	b.orchestrator.complete(id, landed("3", failed, 1))
	require.Equal(t, "3", follow.next(), "what became visible behind the reader")
	require.Equal(t, "end", follow.next())

	errorsOnly := b.follow(t, id, "?errors_only=true&follow=true")
	require.Equal(t, []string{"3", "2", "end"}, []string{errorsOnly.next(), errorsOnly.next(), errorsOnly.next()})
	require.Equal(t, 404, b.call(t, b.rival, "GET", "/v1/batches/"+id+"/results", "").status)
	require.Equal(t, "follow", b.call(t, b.acme, "GET", "/v1/batches/"+id+"/results?follow=1", "").problem(t).Errors[0].Field)
}

// TestResultsThatAreCutOffLookSo: half of the results must not pass for all.
func TestResultsThatAreCutOffLookSo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.call(t, b.acme, "POST", uploadPath, lines(9), asLines, "Idempotency-Key: k")
	id, _ := b.orchestrator.only()
	b.orchestrator.land(id, landed("1", pawlv1.RunStatus_RUN_STATUS_DONE, 1))
	follow := b.follow(t, id, "?follow=true")
	require.Equal(t, "1", follow.next())
	b.service.Drain(t.Context())
	_, err := follow.reader.ReadString('\n')
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestLeavingResultsEndsThem(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.call(t, b.acme, "POST", uploadPath, lines(1), asLines, "Idempotency-Key: k")
	id, _ := b.orchestrator.only()
	follow := b.follow(t, id, "?follow=true")
	require.NoError(t, follow.response.Body.Close())
	// goleak finds what would stay behind.
}
