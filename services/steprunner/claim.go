package steprunner

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/google/uuid"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/gather"
	"pawl.internal/services/steprunner/repeat"
)

const (
	// batchEvents and batchBytes bound one ClaimSteps or CompleteSteps.
	batchEvents = 64
	batchBytes  = 2 << 20
)

// claim is one question for a step. Its fence is drawn once: when the answer is lost, the same question finds the step
// granted already.
type claim struct {
	entry string // the entry of the stream that announced the step
	class pawlv1.RunClass
	ref   *systemv1.StepRef
	fence uuid.UUID

	answer *systemv1.ClaimResult
}

// claimer asks the orchestrator for steps. Claims of a lane that come while one request is under way share the next.
type claimer struct {
	orchestrator systemv1.OrchestratorServiceClient
	runner       uuid.UUID
	cfg          Config
	metrics      *metrics
	log          *slog.Logger
	gather       *gather.Collector[*claim]
}

func newClaimer(o systemv1.OrchestratorServiceClient, runner uuid.UUID, cfg Config, m *metrics, log *slog.Logger) *claimer {
	c := &claimer{orchestrator: o, runner: runner, cfg: cfg, metrics: m, log: log}
	c.gather = gather.New(gather.Config[*claim]{
		Lanes:     laneCount,
		MaxEvents: batchEvents,
		Lane:      func(c *claim) uint64 { return uint64(c.class) },
		Commit:    func(ctx context.Context, _ int, group []*claim) error { return c.send(ctx, group) },
	})
	return c
}

// ask asks once for each of the claims and sorts them: those that are granted; those that are over, because their steps
// are not this runner's; and those to ask again, because the orchestrator is away or the answer did not fit.
func (c *claimer) ask(ctx context.Context, claims []*claim) (granted, over, again []*claim) {
	for i, err := range c.gather.SubmitAll(ctx, claims) {
		one := claims[i]
		switch {
		case err != nil && repeat.Passing(err):
			again = append(again, one)
		case err != nil:
			// If the step is still waiting, the orchestrator notices and adds a new entry.
			c.log.ErrorContext(ctx, "claim refused", "run_id", runID(one.ref), "step", one.ref.GetStep(), "error", err)
			over = append(over, one)
		case one.answer.GetStatus() == systemv1.ClaimStatus_CLAIM_STATUS_GRANTED:
			granted = append(granted, one)
		case one.answer.GetStatus() == systemv1.ClaimStatus_CLAIM_STATUS_AGAIN:
			again = append(again, one)
		default:
			over = append(over, one)
		}
	}
	return granted, over, again
}

// send carries out one request.
func (c *claimer) send(ctx context.Context, group []*claim) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RPCTimeout)
	defer cancel()
	request := &systemv1.ClaimStepsRequest{RunnerId: c.runner[:], Claims: make([]*systemv1.Claim, len(group))}
	for i, one := range group {
		request.Claims[i] = &systemv1.Claim{Step: one.ref, Fence: one.fence[:]}
	}
	c.metrics.batch("claim", len(group))
	response, err := c.orchestrator.ClaimSteps(ctx, request)
	if err != nil {
		return wholeGroup(err)
	}
	if len(response.GetResults()) != len(group) {
		return fmt.Errorf("claim steps: %d answers to %d claims", len(response.GetResults()), len(group))
	}
	for i, result := range response.GetResults() {
		group[i].answer = result
		c.metrics.claimed(result.GetStatus())
	}
	return nil
}

// wholeGroup marks an error that may pass as one that concerns all of a group alike, so that it is not split: nobody is
// there to answer, or the runner's lease has run out and is about to be renewed.
func wholeGroup(err error) error {
	if repeat.Passing(err) || fault.Is(err, faultv1.ErrorReason_ERROR_REASON_STALE_FENCE) {
		return fault.Unavailable(err, "the orchestrator is not available")
	}
	return err
}
