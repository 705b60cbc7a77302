package provider

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// manageTime bounds a request that is for no model, with the whole of its answer: files of batches are long.
const manageTime = 10 * time.Minute

// errLongLine is returned for a line that no answer of a model can be.
var errLongLine = errors.New("a line is longer than is read")

// Do sends a request that is for no model, such as one about a batch, and reads the answer.
func (c *Client) Do(ctx context.Context, method, url string, header http.Header, body []byte) Exchange {
	ctx, cancel := context.WithTimeout(ctx, manageTime)
	defer cancel()
	resp, err := c.manage(ctx, method, url, header, body)
	if err != nil {
		return Exchange{Err: err}
	}
	defer func() { _ = resp.Body.Close() }() // all that matters has been read
	x := Exchange{Status: resp.StatusCode, Header: resp.Header, Sent: true}
	x.Body, x.TooLong, x.Err = readBody(resp.Body, io.Discard)
	return x
}

// Lines gets a document of lines and tells each, without its end, to heard, which must not keep it. It ends with heard's
// first error. The exchange has a body only if the answer is no success.
func (c *Client) Lines(ctx context.Context, url string, header http.Header, heard func(line []byte) error) Exchange {
	ctx, cancel := context.WithTimeout(ctx, manageTime)
	defer cancel()
	resp, err := c.manage(ctx, http.MethodGet, url, header, nil)
	if err != nil {
		return Exchange{Err: err}
	}
	defer func() { _ = resp.Body.Close() }() // all that matters has been read
	x := Exchange{Status: resp.StatusCode, Header: resp.Header, Sent: true}
	if resp.StatusCode >= http.StatusMultipleChoices {
		x.Body, x.TooLong, x.Err = readBody(resp.Body, io.Discard)
		return x
	}
	x.Err = eachLine(resp.Body, heard)
	return x
}

func (c *Client) manage(ctx context.Context, method, url string, header http.Header, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header = header
	return c.transport.RoundTrip(req)
}

func eachLine(r io.Reader, heard func([]byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), MaxBody)
	for lines.Scan() {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if err := heard(line); err != nil {
			return err
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return errLongLine
	case err != nil:
		return fmt.Errorf("%w: %w", errCut, err)
	}
	return nil
}
