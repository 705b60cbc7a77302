package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/testkit"
)

// patience bounds every wait for something that must come.
const patience = 60 * time.Second

// client gives up on a server that hangs.
var client = &http.Client{Timeout: 30 * time.Second}

// Response is an HTTP answer that was read to its end.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// decode reads the body as JSON; a status that is not a success is an error.
func (r Response) decode(into any) error {
	if r.Status >= http.StatusMultipleChoices {
		return fmt.Errorf("status %d: %s", r.Status, r.Body)
	}
	if into == nil || len(r.Body) == 0 {
		return nil
	}
	return json.Unmarshal(r.Body, into)
}

// JSON is the body as a JSON object.
func (r Response) JSON(t testing.TB) map[string]any {
	t.Helper()
	var object map[string]any
	require.NoError(t, json.Unmarshal(r.Body, &object), "%s", r.Body)
	return object
}

// exchange sends a request. A body that is a string or bytes is sent as it is, anything else as JSON.
func exchange(ctx context.Context, method, url string, header http.Header, body any) (Response, error) {
	content, err := encode(body)
	if err != nil {
		return Response{}, err
	}
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(content))
	if err != nil {
		return Response{}, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, values := range header {
		request.Header[name] = values
	}
	answer, err := client.Do(request)
	if err != nil {
		return Response{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return Response{Status: answer.StatusCode, Header: answer.Header, Body: text}, err
}

func encode(body any) ([]byte, error) {
	switch b := body.(type) {
	case nil:
		return nil, nil
	case string:
		return []byte(b), nil
	case []byte:
		return b, nil
	default:
		return json.Marshal(body)
	}
}

// Eventually tries until it gets nil, and fails the test when patience is over.
func Eventually(t testing.TB, try func() error) {
	t.Helper()
	testkit.Eventually(t, patience, try)
}

// freeAddress is a loopback address that nobody listens on now.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}
