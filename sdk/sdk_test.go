package sdk_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/sdk"
)

// server is a Pawl of the test's own.
type server struct {
	pawlv1.UnimplementedRunServiceServer

	mu      sync.Mutex
	created []*pawlv1.CreateRunRequest
	auth    []string
	limit   time.Time
	// refuse has the errors of the next calls.
	refuse []error
	// watches has what each watch sends, and watched how many there were.
	watches [][]any
	watched int
}

func (s *server) note(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.auth = metadata.ValueFromIncomingContext(ctx, "authorization")
	s.limit, _ = ctx.Deadline()
	if len(s.refuse) == 0 {
		return nil
	}
	err := s.refuse[0]
	s.refuse = s.refuse[1:]
	return err
}

func (s *server) CreateRun(ctx context.Context, req *pawlv1.CreateRunRequest) (*pawlv1.CreateRunResponse, error) {
	s.mu.Lock()
	s.created = append(s.created, req)
	s.mu.Unlock()
	return &pawlv1.CreateRunResponse{RunId: "r"}, s.note(ctx)
}

func (s *server) GetRun(ctx context.Context, _ *pawlv1.GetRunRequest) (*pawlv1.GetRunResponse, error) {
	return &pawlv1.GetRunResponse{}, s.note(ctx)
}

func (s *server) RetryRun(ctx context.Context, _ *pawlv1.RetryRunRequest) (*pawlv1.RetryRunResponse, error) {
	return &pawlv1.RetryRunResponse{}, s.note(ctx)
}

func (s *server) WatchRun(_ *pawlv1.WatchRunRequest, stream pawlv1.RunService_WatchRunServer) error {
	s.mu.Lock()
	script := s.watches[s.watched]
	s.watched++
	s.mu.Unlock()
	for _, each := range script {
		switch each := each.(type) {
		case error:
			return each
		case *pawlv1.Run:
			if err := stream.Send(&pawlv1.WatchRunResponse{Run: each}); err != nil {
				return err
			}
		case chan struct{}:
			<-stream.Context().Done()
			close(each)
		}
	}
	return nil
}

func connect(t *testing.T, s *server, options ...sdk.Option) *sdk.Client {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	grpcServer := grpc.NewServer()
	pawlv1.RegisterRunServiceServer(grpcServer, s)
	done := make(chan error, 1)
	go func() { done <- grpcServer.Serve(listener) }()
	t.Cleanup(func() {
		grpcServer.Stop()
		require.NoError(t, <-done)
	})
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }
	client, err := sdk.New("passthrough:///test", "pawl_test_secret",
		append(options, sdk.WithDialOptions(grpc.WithContextDialer(dial)))...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func TestACallHasKeyDeadlineAndIdempotencyKey(t *testing.T) {
	s := &server{}
	client := connect(t, s, sdk.WithTimeout(7*time.Second))
	request := &pawlv1.CreateRunRequest{Pipeline: "p", Input: sdk.JSON(`{}`)}
	for range 2 {
		_, err := client.CreateRun(t.Context(), request)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"Bearer pawl_test_secret"}, s.auth)
	within, cancel := context.WithTimeout(t.Context(), 7*time.Second)
	defer cancel()
	limit, _ := within.Deadline()
	require.WithinDuration(t, limit, s.limit, time.Second)
	require.Empty(t, request.GetIdempotencyKey(), "the caller's message is the caller's")
	first, second := s.created[0].GetIdempotencyKey(), s.created[1].GetIdempotencyKey()
	require.NotEmpty(t, first)
	require.NotEqual(t, first, second, "asking twice is two requests")

	request.IdempotencyKey = "mine"
	_, err := client.CreateRun(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, "mine", s.created[2].GetIdempotencyKey())
}

func TestACallIsRepeatedWithItsKeyWhileTheServerIsAway(t *testing.T) {
	away := status.Error(codes.Unavailable, "away")
	s := &server{refuse: []error{away, away}}
	_, err := connect(t, s).CreateRun(t.Context(), &pawlv1.CreateRunRequest{Pipeline: "p"})
	require.NoError(t, err)
	require.Len(t, s.created, 3)
	require.Equal(t, s.created[0].GetIdempotencyKey(), s.created[2].GetIdempotencyKey())
}

func TestWhatMustNotBeRepeatedIsNot(t *testing.T) {
	s := &server{refuse: []error{status.Error(codes.Unavailable, "away")}}
	_, err := connect(t, s).RetryRun(t.Context(), &pawlv1.RetryRunRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Empty(t, s.refuse)
}

func TestErrors(t *testing.T) {
	st, err := status.New(codes.InvalidArgument, "a: is wrong (and 1 more)").WithDetails(
		&errdetails.ErrorInfo{Reason: "INPUT_INVALID", Domain: "pawl"},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: "a", Description: "is wrong"}, {Field: "b", Description: "is missing"},
		}},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(2 * time.Second)},
	)
	require.NoError(t, err)
	_, err = connect(t, &server{refuse: []error{st.Err()}}).GetRun(t.Context(), &pawlv1.GetRunRequest{})
	var refused *sdk.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, codes.InvalidArgument, refused.Code)
	require.True(t, sdk.IsReason(err, "INPUT_INVALID"))
	require.False(t, sdk.IsReason(err, "RUN_NOT_FOUND"))
	require.Equal(t, 2*time.Second, refused.RetryAfter)
	require.Equal(t, []sdk.Violation{{"a", "is wrong"}, {"b", "is missing"}}, refused.Violations)
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.EqualError(t, err, "a: is wrong (and 1 more) (INPUT_INVALID)\n  a: is wrong\n  b: is missing")
}

func TestWatchSurvivesTheServer(t *testing.T) {
	queued := &pawlv1.Run{RunId: "r", Status: pawlv1.RunStatus_RUN_STATUS_QUEUED}
	running := &pawlv1.Run{RunId: "r", Status: pawlv1.RunStatus_RUN_STATUS_RUNNING}
	done := &pawlv1.Run{RunId: "r", Status: pawlv1.RunStatus_RUN_STATUS_DONE}
	s := &server{watches: [][]any{
		{queued, running, status.Error(codes.Unavailable, "stopping")},
		{running, done},
	}}
	var seen []pawlv1.RunStatus
	for run, err := range connect(t, s).Watch(t.Context(), "r") {
		require.NoError(t, err)
		seen = append(seen, run.GetStatus())
	}
	require.Equal(t, []pawlv1.RunStatus{queued.GetStatus(), running.GetStatus(), done.GetStatus()}, seen)
	require.Equal(t, 2, s.watched)
}

func TestWaitReturnsTheEnd(t *testing.T) {
	done := &pawlv1.Run{RunId: "r", Status: pawlv1.RunStatus_RUN_STATUS_FAILED}
	run, err := connect(t, &server{watches: [][]any{{&pawlv1.Run{RunId: "r"}, done}}}).Wait(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_FAILED, run.GetStatus())
}

func TestWatchEndsWithAnErrorThatDoesNotPass(t *testing.T) {
	s := &server{watches: [][]any{{status.Error(codes.NotFound, "there is no run r")}}}
	_, err := connect(t, s).Wait(t.Context(), "r")
	require.EqualError(t, err, "there is no run r")
	require.Equal(t, 1, s.watched)
}

func TestLeavingTheLoopEndsTheStream(t *testing.T) {
	ended := make(chan struct{})
	s := &server{watches: [][]any{{&pawlv1.Run{RunId: "r"}, ended}}}
	for range connect(t, s).Watch(t.Context(), "r") {
		break
	}
	<-ended
}

func TestNewNeedsAKey(t *testing.T) {
	_, err := sdk.New("localhost:1", "")
	require.EqualError(t, err, "an API key is needed")
}
