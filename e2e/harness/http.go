package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// Patience bounds every wait for something that must come.
	Patience = 60 * time.Second
	// pollTime is the time between two looks.
	pollTime = 20 * time.Millisecond
)

// client gives up on a server that hangs. It keeps no connections: the servers of tests come and go.
var client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// Response is an HTTP answer that was read to its end.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Decode reads the body as JSON; a status that is not a success is an error.
func (r Response) Decode(into any) error {
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

// Exchange sends a request. A body that is a string or bytes is sent as it is, anything else as JSON; headers that are given
// win.
func Exchange(ctx context.Context, method, url string, header http.Header, body any) (Response, error) {
	return exchangeWith(ctx, client, method, url, header, body)
}

func exchangeWith(ctx context.Context, client *http.Client, method, url string, header http.Header, body any) (Response, error) {
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

// Ready says why a process cannot serve; nil if it can. Admin is the URL of its health.
func Ready(ctx context.Context, admin string) error {
	response, err := Exchange(ctx, http.MethodGet, admin+"/readyz", nil, nil)
	if err != nil {
		return err
	}
	return response.Decode(nil)
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

// Await tries until it gets nil; when its patience or ctx is over it returns the last error.
func Await(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	ticker := time.NewTicker(pollTime)
	defer ticker.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("still not so: %w", err)
		}
	}
}

// Eventually is Await for the test's own goroutine.
func Eventually(t testing.TB, try func() error) {
	t.Helper()
	require.NoError(t, Await(t.Context(), try))
}
