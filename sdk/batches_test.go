package sdk_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/sdk"
)

// batchServer has one batch.
type batchServer struct {
	pawlv1.UnimplementedBatchServiceServer

	mu     sync.Mutex
	header *pawlv1.BatchHeader
	items  int
	refuse error
	states []any
	// results has what each stream sends.
	results [][]any
	ended   chan error
}

func (s *batchServer) UploadBatch(stream pawlv1.BatchService_UploadBatchServer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	s.header = first.GetBatch()
	if s.refuse != nil {
		return s.refuse
	}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&pawlv1.UploadBatchResponse{BatchId: "b", Created: int32(s.items)})
		}
		if err != nil {
			s.ended <- err
			return err
		}
		if part.GetItem() != nil {
			s.items++
		}
	}
}

func (s *batchServer) GetBatch(context.Context, *pawlv1.GetBatchRequest) (*pawlv1.GetBatchResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.states[0]
	if len(s.states) > 1 {
		s.states = s.states[1:]
	}
	if err, ok := next.(error); ok {
		return nil, err
	}
	batch, _ := next.(*pawlv1.Batch)
	return &pawlv1.GetBatchResponse{Batch: batch}, nil
}

func (s *batchServer) StreamBatchResults(_ *pawlv1.StreamBatchResultsRequest, stream pawlv1.BatchService_StreamBatchResultsServer) error {
	s.mu.Lock()
	script := s.results[0]
	s.results = s.results[1:]
	s.mu.Unlock()
	for _, each := range script {
		switch each := each.(type) {
		case error:
			return each
		case *pawlv1.BatchResult:
			if err := stream.Send(&pawlv1.StreamBatchResultsResponse{Result: each}); err != nil {
				return err
			}
		}
	}
	return nil
}

func connectBatches(t *testing.T, s *batchServer) sdk.Batches {
	t.Helper()
	s.ended = make(chan error, 1)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	pawlv1.RegisterBatchServiceServer(server, s)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-done)
	})
	client, err := sdk.New(listener.Addr().String(), "pawl_test_secret", sdk.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client.Batches()
}

func itemsThenError(n int, last error) iter.Seq2[*pawlv1.BatchItem, error] {
	return func(yield func(*pawlv1.BatchItem, error) bool) {
		for range n {
			if !yield(&pawlv1.BatchItem{Input: sdk.JSON(`{}`)}, nil) {
				return
			}
		}
		if last != nil {
			yield(nil, last)
		}
	}
}

func TestABatchIsSubmittedAsItsItemsCome(t *testing.T) {
	s := &batchServer{}
	header := &pawlv1.BatchHeader{Pipeline: "p"}
	made, err := connectBatches(t, s).Submit(t.Context(), header, itemsThenError(1500, nil))
	require.NoError(t, err)
	require.Equal(t, int32(1500), made.GetCreated())
	require.NotEmpty(t, s.header.GetIdempotencyKey())
	require.Empty(t, header.GetIdempotencyKey(), "the caller's message is the caller's")
}

func TestASubmitThatIsRefusedSaysWhy(t *testing.T) {
	refused := status.Error(codes.InvalidArgument, "the pipeline is none")
	_, err := connectBatches(t, &batchServer{refuse: refused}).Submit(t.Context(), &pawlv1.BatchHeader{}, itemsThenError(100_000, nil))
	require.ErrorContains(t, err, "the pipeline is none")
}

func TestItemsThatFailCutTheSubmitOff(t *testing.T) {
	s := &batchServer{}
	broken := errors.New("the file is unreadable")
	_, err := connectBatches(t, s).Submit(t.Context(), &pawlv1.BatchHeader{}, itemsThenError(3, broken))
	require.ErrorIs(t, err, broken)
	require.Equal(t, codes.Canceled, status.Code(<-s.ended), "the server must not take it for the end")
}

func TestABatchIsWatchedToItsEnd(t *testing.T) {
	running := &pawlv1.Batch{BatchId: "b", Status: pawlv1.BatchStatus_BATCH_STATUS_RUNNING}
	done := &pawlv1.Batch{BatchId: "b", Status: pawlv1.BatchStatus_BATCH_STATUS_COMPLETED}
	s := &batchServer{states: []any{running, running, done}}
	last, err := connectBatches(t, s).Wait(t.Context(), "b")
	require.NoError(t, err)
	require.Equal(t, pawlv1.BatchStatus_BATCH_STATUS_COMPLETED, last.GetStatus())
	s.states = []any{status.Error(codes.NotFound, "none")}
	_, err = connectBatches(t, s).Wait(t.Context(), "b")
	require.ErrorContains(t, err, "none")
}

func TestResultsComeOnceThoughTheServerGoesAway(t *testing.T) {
	result := func(run string, second int64) *pawlv1.BatchResult {
		return &pawlv1.BatchResult{RunId: run, FinishedAt: &timestamppb.Timestamp{Seconds: second}}
	}
	s := &batchServer{results: [][]any{
		{result("1", 1), result("2", 2), status.Error(codes.Unavailable, "stopping")},
		{result("1", 1), result("2", 2), result("3", 3), result("1", 4)},
	}}
	var got []string
	for r, err := range connectBatches(t, s).Results(t.Context(), &pawlv1.StreamBatchResultsRequest{BatchId: "b", Follow: true}) {
		require.NoError(t, err)
		got = append(got, r.GetRunId())
	}
	require.Equal(t, []string{"1", "2", "3", "1"}, got, "what was retried came again")
}
