package sdk

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pawlv1 "pawl.internal/gen/pawl/v1"
)

// rewatchAfter is the wait before a watch that broke is begun again.
const rewatchAfter = 500 * time.Millisecond

// Watch yields the run now and after every change, and ends with the run. When the server goes away, it goes on watching
// until the server is back or ctx ends; an error that will not pass ends it and is yielded last.
func (c *Client) Watch(ctx context.Context, runID string) iter.Seq2[*pawlv1.Run, error] {
	return func(yield func(*pawlv1.Run, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // ends the stream when the loop over it was left
		var last *pawlv1.Run
		news := func(run *pawlv1.Run) bool {
			if proto.Equal(run, last) {
				return true // what a watch that was begun again says first
			}
			last = run
			return yield(run, nil)
		}
		for {
			left, err := c.watchOnce(ctx, runID, news)
			if left || err == nil {
				return
			}
			if !isPassing(err) || !pause(ctx, rewatchAfter) {
				yield(nil, err)
				return
			}
		}
	}
}

// watchOnce hands the states of one stream to news. It returns nil at the run's end, and left when news wants no more.
func (c *Client) watchOnce(ctx context.Context, runID string, news func(*pawlv1.Run) bool) (left bool, err error) {
	stream, err := c.WatchRun(ctx, &pawlv1.WatchRunRequest{RunId: runID})
	if err != nil {
		return false, err
	}
	for {
		next, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if !news(next.GetRun()) {
			return true, nil
		}
	}
}

// Wait returns the run when it has ended.
func (c *Client) Wait(ctx context.Context, runID string) (*pawlv1.Run, error) {
	var last *pawlv1.Run
	for run, err := range c.Watch(ctx, runID) {
		if err != nil {
			return nil, err
		}
		last = run
	}
	return last, nil
}

// isPassing reports whether it may go better next time.
func isPassing(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == codes.Unavailable
}

// pause waits, and reports false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-timer.Done()
	return ctx.Err() == nil
}
