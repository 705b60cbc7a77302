package steprunner_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
)

// orchestrator is a small orchestrator in memory. It grants each step once, stores outcomes under the right fence only,
// and keeps every request. A hook may answer in its place, or hold a request back.
type orchestrator struct {
	systemv1.UnimplementedOrchestratorServiceServer
	lifeless

	lease time.Duration

	mu         sync.Mutex
	steps      map[string]*systemv1.Assignment            // guarded by mu
	fences     map[string]string                          // guarded by mu; who holds the step
	outcomes   map[string]*systemv1.Outcome               // guarded by mu; stored ones
	pipelines  map[string]string                          // guarded by mu; sources by digest
	stops      []*systemv1.Stop                           // guarded by mu; for the next heartbeat
	claims     []*systemv1.ClaimStepsRequest              // guarded by mu
	completed  []*systemv1.CompleteStepsRequest           // guarded by mu
	heartbeats []*systemv1.HeartbeatRequest               // guarded by mu
	releases   []*systemv1.ReleaseStepsRequest            // guarded by mu
	answer     []*systemv1.ClaimResult                    // guarded by mu; instead of granting
	fetches    int                                        // guarded by mu
	onClaim    func(*systemv1.ClaimStepsRequest) error    // guarded by mu; called after the claims took effect
	onComplete func(*systemv1.CompleteStepsRequest) error // guarded by mu; called before the outcomes take effect
	onBeat     func() error                               // guarded by mu
	onRelease  func() error                               // guarded by mu
	// beatAfterLeave says that a heartbeat came after the runner had left; guarded by mu.
	beatAfterLeave bool
	onFetch        func() error // guarded by mu
	judge          func(*systemv1.Outcome) *systemv1.CompleteResult
}

func newOrchestrator() *orchestrator {
	return &orchestrator{
		lease: 30 * time.Second, steps: map[string]*systemv1.Assignment{}, fences: map[string]string{},
		outcomes: map[string]*systemv1.Outcome{}, pipelines: map[string]string{},
	}
}

func (o *orchestrator) Register(r grpc.ServiceRegistrar) {
	systemv1.RegisterOrchestratorServiceServer(r, o)
}

// set changes the orchestrator's behaviour.
func (o *orchestrator) set(change func(*orchestrator)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change(o)
}

// see reads something of the orchestrator.
func see[T any](o *orchestrator, look func(*orchestrator) T) T {
	o.mu.Lock()
	defer o.mu.Unlock()
	return look(o)
}

func keyOf(ref *systemv1.StepRef) string {
	return fmt.Sprintf("%x/%s/%d/%d", ref.GetRunId(), ref.GetStep(), ref.GetShard(), ref.GetGeneration())
}

func (o *orchestrator) ClaimSteps(_ context.Context, req *systemv1.ClaimStepsRequest) (*systemv1.ClaimStepsResponse, error) {
	response := &systemv1.ClaimStepsResponse{}
	o.set(func(o *orchestrator) {
		o.claims = append(o.claims, proto.CloneOf(req))
		for _, c := range req.GetClaims() {
			response.Results = append(response.Results, o.claim(c))
		}
	})
	if hook := see(o, func(o *orchestrator) func(*systemv1.ClaimStepsRequest) error { return o.onClaim }); hook != nil {
		if err := hook(req); err != nil {
			return nil, err
		}
	}
	return response, nil
}

// claim decides on one claim. o.mu is held.
func (o *orchestrator) claim(c *systemv1.Claim) *systemv1.ClaimResult {
	if len(o.answer) > 0 {
		result := o.answer[0]
		o.answer = o.answer[1:]
		return result
	}
	key, fence := keyOf(c.GetStep()), string(c.GetFence())
	assignment := o.steps[key]
	switch {
	case assignment == nil || o.outcomes[key] != nil:
		return &systemv1.ClaimResult{Status: systemv1.ClaimStatus_CLAIM_STATUS_GONE}
	case o.fences[key] != "" && o.fences[key] != fence:
		return &systemv1.ClaimResult{Status: systemv1.ClaimStatus_CLAIM_STATUS_HELD}
	default:
		o.fences[key] = fence
		return &systemv1.ClaimResult{Status: systemv1.ClaimStatus_CLAIM_STATUS_GRANTED, Assignment: assignment}
	}
}

func (o *orchestrator) CompleteSteps(_ context.Context, req *systemv1.CompleteStepsRequest) (*systemv1.CompleteStepsResponse, error) {
	o.set(func(o *orchestrator) { o.completed = append(o.completed, proto.CloneOf(req)) })
	hook := see(o, func(o *orchestrator) func(*systemv1.CompleteStepsRequest) error { return o.onComplete })
	if hook != nil {
		if err := hook(req); err != nil {
			return nil, err
		}
	}
	response := &systemv1.CompleteStepsResponse{}
	o.set(func(o *orchestrator) {
		for _, outcome := range req.GetOutcomes() {
			response.Results = append(response.Results, o.complete(outcome))
		}
	})
	return response, nil
}

// complete decides on one outcome. o.mu is held.
func (o *orchestrator) complete(outcome *systemv1.Outcome) *systemv1.CompleteResult {
	key := keyOf(outcome.GetStep())
	if o.judge != nil {
		if result := o.judge(outcome); result != nil {
			return result
		}
	}
	switch {
	case o.fences[key] != string(outcome.GetFence()):
		return &systemv1.CompleteResult{Status: systemv1.CompleteStatus_COMPLETE_STATUS_STALE}
	case o.outcomes[key] != nil:
		return &systemv1.CompleteResult{Status: systemv1.CompleteStatus_COMPLETE_STATUS_ALREADY_STORED}
	default:
		o.outcomes[key] = proto.CloneOf(outcome)
		return &systemv1.CompleteResult{Status: systemv1.CompleteStatus_COMPLETE_STATUS_STORED}
	}
}

func (o *orchestrator) Heartbeat(_ context.Context, req *systemv1.HeartbeatRequest) (*systemv1.HeartbeatResponse, error) {
	if hook := see(o, func(o *orchestrator) func() error { return o.onBeat }); hook != nil {
		if err := hook(); err != nil {
			return nil, err
		}
	}
	response := &systemv1.HeartbeatResponse{}
	o.set(func(o *orchestrator) {
		o.heartbeats = append(o.heartbeats, proto.CloneOf(req))
		o.beatAfterLeave = o.beatAfterLeave || len(o.releases) > 0 && o.releases[len(o.releases)-1].GetLeaving()
		response.Lease, response.Stops = durationpb.New(o.lease), o.stops
		o.stops = nil
	})
	return response, nil
}

func (o *orchestrator) ReleaseSteps(_ context.Context, req *systemv1.ReleaseStepsRequest) (*systemv1.ReleaseStepsResponse, error) {
	if hook := see(o, func(o *orchestrator) func() error { return o.onRelease }); hook != nil {
		if err := hook(); err != nil {
			return nil, err
		}
	}
	o.set(func(o *orchestrator) {
		o.releases = append(o.releases, proto.CloneOf(req))
		for _, hold := range req.GetHolds() {
			delete(o.fences, keyOf(hold.GetStep()))
		}
	})
	return &systemv1.ReleaseStepsResponse{Released: int32(len(req.GetHolds()))}, nil
}

func (o *orchestrator) GetPipeline(_ context.Context, req *systemv1.GetPipelineRequest) (*systemv1.GetPipelineResponse, error) {
	if hook := see(o, func(o *orchestrator) func() error { return o.onFetch }); hook != nil {
		if err := hook(); err != nil {
			return nil, err
		}
	}
	source := ""
	o.set(func(o *orchestrator) {
		o.fetches++
		source = o.pipelines[string(req.GetDigest())]
	})
	return &systemv1.GetPipelineResponse{Pipeline: &pawlv1.Pipeline{
		Digest: hex.EncodeToString(req.GetDigest()), Source: source,
	}}, nil
}

// stop has the next heartbeat stop whoever holds the step.
func (o *orchestrator) stop(ref *systemv1.StepRef, reason systemv1.StopReason) {
	o.set(func(o *orchestrator) {
		o.stops = append(o.stops, &systemv1.Stop{Step: ref, Fence: []byte(o.fences[keyOf(ref)]), Reason: reason})
	})
}

// runner is the id of the runner that sends heartbeats, as consumers are named.
func (o *orchestrator) runner() string {
	return see(o, func(o *orchestrator) string {
		if len(o.heartbeats) == 0 {
			return ""
		}
		return uuid.UUID(o.heartbeats[0].GetRunnerId()).String()
	})
}

// gateway answers questions as its function says.
type gateway struct {
	systemv1.UnimplementedGatewayServiceServer
	lifeless

	mu        sync.Mutex
	answer    answerer                    // guarded by mu
	questions []*systemv1.GenerateRequest // guarded by mu
	inFlight  int                         // guarded by mu
	most      int                         // guarded by mu; the most calls at once
	ended     int                         // guarded by mu; streams that have ended
	cancels   int                         // guarded by mu
}

type answerer func(ctx context.Context, question *systemv1.GenerateRequest, say func(*systemv1.GenerateResponse)) error

func (g *gateway) Register(r grpc.ServiceRegistrar) { systemv1.RegisterGatewayServiceServer(r, g) }

func (g *gateway) Generate(req *systemv1.GenerateRequest, stream grpc.ServerStreamingServer[systemv1.GenerateResponse]) error {
	g.mu.Lock()
	g.questions = append(g.questions, proto.CloneOf(req))
	g.inFlight++
	g.most = max(g.most, g.inFlight)
	answer := g.answer
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.inFlight--
		g.ended++
	}()
	return answer(stream.Context(), req, func(news *systemv1.GenerateResponse) { _ = stream.Send(news) })
}

func (g *gateway) CancelCalls(context.Context, *systemv1.CancelCallsRequest) (*systemv1.CancelCallsResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cancels++
	return &systemv1.CancelCallsResponse{}, nil
}

func (g *gateway) set(answer answerer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answer = answer
}

func (g *gateway) asked() []*systemv1.GenerateRequest {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]*systemv1.GenerateRequest(nil), g.questions...)
}

// text is an answer of the model.
func text(content string) *systemv1.GenerateResponse {
	return &systemv1.GenerateResponse{News: &systemv1.GenerateResponse_Answer{Answer: &systemv1.Answer{
		Text: content, FinishReason: "stop", InputTokens: 10, OutputTokens: 5, CostPicoUsd: 700, Calls: 1,
		RunSpend: &systemv1.Spend{SpentPicoUsd: 700, Version: 2},
	}}}
}

// says answers every question with the same text.
func says(content string) answerer {
	return func(_ context.Context, _ *systemv1.GenerateRequest, say func(*systemv1.GenerateResponse)) error {
		say(text(content))
		return nil
	}
}

// silent never answers.
func silent(ctx context.Context, _ *systemv1.GenerateRequest, _ func(*systemv1.GenerateResponse)) error {
	<-ctx.Done()
	return ctx.Err()
}

// lifeless is a service without work of its own.
type lifeless struct{}

func (lifeless) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (lifeless) Ready(context.Context) error { return nil }

func (lifeless) Drain(context.Context) {}
