package intake

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"google.golang.org/grpc/metadata"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
)

const (
	// resultsPage is how many results are read at once.
	resultsPage = 200
	// resultsGap is the wait before it is asked what has ended since.
	resultsGap = 500 * time.Millisecond
	// resultsLook bounds the reading of a page.
	resultsLook = 10 * time.Second
)

// StreamBatchResults sends what has ended, and with follow what ends until the batch has.
func (s *Service) StreamBatchResults(
	req *pawlv1.StreamBatchResultsRequest, stream pawlv1.BatchService_StreamBatchResultsServer,
) error {
	s.metrics.watchers.Inc()
	defer s.metrics.watchers.Dec()
	r := &results{s: s, req: req, stream: stream, sent: map[[16]byte]struct{}{}}
	first, err := r.look(stream.Context(), "")
	if err != nil {
		return err
	}
	// Who asked learns that there is such a batch, also while nothing of it has ended.
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	return r.run(stream.Context(), first)
}

// results is one stream of results.
type results struct {
	s      *Service
	req    *pawlv1.StreamBatchResultsRequest
	stream pawlv1.BatchService_StreamBatchResultsServer
	// sent has the hashes of what was sent.
	sent map[[16]byte]struct{}
}

// run reads on from the first page. Items that ended while it read may stand before where it was, so what had not all ended
// at its beginning is gone through once more at its end; what was sent is left out.
func (r *results) run(ctx context.Context, page *systemv1.ListBatchResultsResponse) error {
	last := page.GetBatchEnded() || !r.req.GetFollow()
	for {
		if err := r.send(page.GetResults()); err != nil {
			return err
		}
		token := page.GetNextPageToken()
		switch {
		case page.GetAtEnd() && last:
			return nil
		case page.GetAtEnd() && page.GetBatchEnded():
			last, token = true, ""
		case page.GetAtEnd():
			if err := r.wait(ctx); err != nil {
				return err
			}
		}
		next, err := r.lookOn(ctx, token)
		if err != nil {
			return err
		}
		page = next
	}
}

func (r *results) send(items []*pawlv1.BatchResult) error {
	for _, item := range items {
		if !r.isNew(item) {
			continue
		}
		if err := r.stream.Send(&pawlv1.StreamBatchResultsResponse{Result: item}); err != nil {
			return err
		}
	}
	return nil
}

// isNew reports whether the item was not sent as it ended now; one that was retried since ended anew.
func (r *results) isNew(item *pawlv1.BatchResult) bool {
	at := item.GetFinishedAt()
	text := fmt.Sprintf("%s\x00%s\x00%d\x00%d.%d", item.GetRunId(), item.GetCustomId(), item.GetStatus(), at.GetSeconds(), at.GetNanos())
	sum := sha256.Sum256([]byte(text))
	short := [16]byte(sum[:16])
	_, known := r.sent[short]
	r.sent[short] = struct{}{}
	return !known
}

// lookOn reads a page, and sits out the time in which nobody can say what is on it when the caller follows the batch.
func (r *results) lookOn(ctx context.Context, token string) (*systemv1.ListBatchResultsResponse, error) {
	for {
		page, err := r.look(ctx, token)
		if err == nil || !r.req.GetFollow() || !isPassing(err) {
			return page, err
		}
		if err := r.wait(ctx); err != nil {
			return nil, err
		}
	}
}

func (r *results) look(ctx context.Context, token string) (*systemv1.ListBatchResultsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, resultsLook)
	defer cancel()
	return r.s.orchestrator.ListBatchResults(ctx, &systemv1.ListBatchResultsRequest{
		Tenant: callerOf(ctx).tenant, BatchId: r.req.GetBatchId(), ErrorsOnly: r.req.GetErrorsOnly(),
		PageSize: resultsPage, PageToken: token,
	})
}

// wait returns when it is time to look again.
func (r *results) wait(ctx context.Context) error {
	timer := r.s.clock.NewTimer(resultsGap)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-r.s.stopping:
		return fault.Unavailable(nil, "this replica of intake is stopping: ask again")
	case <-ctx.Done():
		return ctx.Err()
	}
}
