package sdk

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	pawlv1 "pawl.internal/gen/pawl/v1"
)

// lookAgainAfter is the wait between two looks at a batch.
const lookAgainAfter = time.Second

// Batches does with batches what takes more than one call. It is safe for concurrent use.
type Batches struct{ client *Client }

// Batches returns the helper for batches.
func (c *Client) Batches() Batches { return Batches{c} }

// Submit uploads a batch as its items come, up to 100000. An error that the items yield ends it. Give the header an idempotency
// key to repeat a submit that broke off: it then makes exactly the items that are missing.
func (b Batches) Submit(
	ctx context.Context, header *pawlv1.BatchHeader, items iter.Seq2[*pawlv1.BatchItem, error],
) (*pawlv1.UploadBatchResponse, error) {
	return b.SubmitParts(ctx, header, func(yield func(*pawlv1.UploadBatchRequest, error) bool) {
		for item, err := range items {
			if !yield(&pawlv1.UploadBatchRequest{Part: &pawlv1.UploadBatchRequest_Item{Item: item}}, err) {
				return
			}
		}
	})
}

// SubmitParts is Submit of items that have places of their own, and of what could not be read as an item.
func (b Batches) SubmitParts(
	ctx context.Context, header *pawlv1.BatchHeader, parts iter.Seq2[*pawlv1.UploadBatchRequest, error],
) (*pawlv1.UploadBatchResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // says that the upload was cut off when the items have failed
	stream, err := b.client.UploadBatch(ctx)
	if err != nil {
		return nil, err
	}
	if header.GetIdempotencyKey() == "" {
		header = proto.CloneOf(header)
		header.IdempotencyKey = rand.Text()
	}
	err = stream.Send(&pawlv1.UploadBatchRequest{Part: &pawlv1.UploadBatchRequest_Batch{Batch: header}})
	if err == nil {
		err = sendParts(stream, parts)
	}
	if err != nil && !errors.Is(err, errStreamEnded) {
		return nil, err
	}
	return stream.CloseAndRecv()
}

// errStreamEnded says that the server has ended the stream, and says why in its answer.
var errStreamEnded = errors.New("the server has ended the stream")

func sendParts(stream interface {
	Send(*pawlv1.UploadBatchRequest) error
}, parts iter.Seq2[*pawlv1.UploadBatchRequest, error],
) error {
	for part, err := range parts {
		if err != nil {
			return err
		}
		if err := stream.Send(part); errors.Is(err, io.EOF) {
			return errStreamEnded
		} else if err != nil {
			return err
		}
	}
	return nil
}

// Watch yields the batch now and after every change, and ends with the batch. It sits out the time in which the server is
// away; an error that will not pass ends it and is yielded last.
func (b Batches) Watch(ctx context.Context, batchID string) iter.Seq2[*pawlv1.Batch, error] {
	return func(yield func(*pawlv1.Batch, error) bool) {
		var last *pawlv1.Batch
		for {
			got, err := b.client.GetBatch(ctx, &pawlv1.GetBatchRequest{BatchId: batchID})
			switch {
			case err != nil && !isPassing(err):
				yield(nil, err)
				return
			case err == nil && !proto.Equal(got.GetBatch(), last):
				if last = got.GetBatch(); !yield(last, nil) {
					return
				}
			}
			if batchEnded(last) {
				return
			}
			if !pause(ctx, lookAgainAfter) {
				yield(nil, ctx.Err())
				return
			}
		}
	}
}

// Wait returns the batch when it has ended.
func (b Batches) Wait(ctx context.Context, batchID string) (*pawlv1.Batch, error) {
	var last *pawlv1.Batch
	for batch, err := range b.Watch(ctx, batchID) {
		if err != nil {
			return nil, err
		}
		last = batch
	}
	return last, nil
}

func batchEnded(batch *pawlv1.Batch) bool {
	return batch.GetStatus() == pawlv1.BatchStatus_BATCH_STATUS_COMPLETED ||
		batch.GetStatus() == pawlv1.BatchStatus_BATCH_STATUS_CANCELLED
}

// Results yields the items that have ended, each once as it ended; with Follow those that end until the batch has. When the
// server goes away it goes on where it was; an error that will not pass ends it and is yielded last.
func (b Batches) Results(ctx context.Context, req *pawlv1.StreamBatchResultsRequest) iter.Seq2[*pawlv1.BatchResult, error] {
	return func(yield func(*pawlv1.BatchResult, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // ends the stream when the loop over it was left
		seen := map[resultKey]struct{}{}
		news := func(result *pawlv1.BatchResult) bool {
			key := keyOf(result)
			if _, known := seen[key]; known {
				return true // what a stream that was begun again says first
			}
			seen[key] = struct{}{}
			return yield(result, nil)
		}
		for {
			left, err := b.resultsOnce(ctx, req, news)
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

// resultKey tells results apart: an item that was retried has one for each time that it ended.
type resultKey struct {
	name    string
	seconds int64
	nanos   int32
}

func keyOf(r *pawlv1.BatchResult) resultKey {
	name := r.GetRunId()
	if name == "" {
		name = r.GetCustomId() // it was refused
	}
	return resultKey{name, r.GetFinishedAt().GetSeconds(), r.GetFinishedAt().GetNanos()}
}

// resultsOnce hands the results of one stream to news. It returns nil at the end, and left when news wants no more.
func (b Batches) resultsOnce(
	ctx context.Context, req *pawlv1.StreamBatchResultsRequest, news func(*pawlv1.BatchResult) bool,
) (left bool, err error) {
	stream, err := b.client.StreamBatchResults(ctx, req)
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
		if !news(next.GetResult()) {
			return true, nil
		}
	}
}
