package steprunner

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/gather"
	"pawl.internal/services/steprunner/repeat"
	"pawl.internal/services/steprunner/step"
)

// completion is an outcome on its way to the orchestrator.
type completion struct {
	class   pawlv1.RunClass
	outcome *systemv1.Outcome
	size    int

	answer *systemv1.CompleteResult
}

// completer reports outcomes until they are stored. Outcomes of a lane that come while one request is under way share the
// next.
type completer struct {
	orchestrator systemv1.OrchestratorServiceClient
	runner       uuid.UUID
	cfg          Config
	clock        clock.Clock
	metrics      *metrics
	log          *slog.Logger
	gather       *gather.Collector[*completion]
}

func newCompleter(
	o systemv1.OrchestratorServiceClient, runner uuid.UUID, cfg Config, clk clock.Clock, m *metrics, log *slog.Logger,
) *completer {
	c := &completer{orchestrator: o, runner: runner, cfg: cfg, clock: clk, metrics: m, log: log}
	c.gather = gather.New(gather.Config[*completion]{
		Lanes:     laneCount,
		MaxEvents: batchEvents,
		MaxBytes:  batchBytes,
		Lane:      func(c *completion) uint64 { return uint64(c.class) },
		Size:      func(c *completion) int { return c.size },
		Commit:    func(ctx context.Context, _ int, group []*completion) error { return c.send(ctx, group) },
	})
	return c
}

// report returns when the outcome is stored or refused, or with ctx's error when the attempt is over before. While the
// orchestrator is away it repeats the very same outcome, which is not a new attempt. An outcome that the orchestrator
// cannot accept is replaced by a failure, so that the run does not wait for ever.
func (c *completer) report(ctx context.Context, class pawlv1.RunClass, outcome *systemv1.Outcome) error {
	refusal, err := c.store(ctx, class, outcome)
	if err != nil || refusal == "" {
		return err
	}
	c.log.ErrorContext(ctx, "outcome refused", "run_id", runID(outcome.GetStep()), "step", outcome.GetStep().GetStep(),
		"error", refusal)
	outcome = proto.CloneOf(outcome)
	outcome.Result = failed(step.Internal()).Result
	if refusal, err = c.store(ctx, class, outcome); err == nil && refusal != "" {
		c.log.ErrorContext(ctx, "failure refused: the step is left to the end of its lease",
			"run_id", runID(outcome.GetStep()), "step", outcome.GetStep().GetStep(), "error", refusal)
	}
	return err
}

// store submits the outcome until there is an answer. A refusal says what is wrong with the outcome itself.
func (c *completer) store(ctx context.Context, class pawlv1.RunClass, outcome *systemv1.Outcome) (refusal string, err error) {
	one := &completion{class: class, outcome: outcome, size: proto.Size(outcome)}
	pace := repeat.NewPace(c.clock)
	for {
		err := c.gather.Submit(ctx, one)
		switch {
		case err == nil && one.answer.GetStatus() == systemv1.CompleteStatus_COMPLETE_STATUS_INVALID:
			return "invalid: " + one.answer.GetMessage(), nil
		case err == nil:
			return "", nil
		case !repeat.Passing(err):
			return err.Error(), nil
		}
		if err := pace.Wait(ctx); err != nil {
			return "", context.Cause(ctx)
		}
	}
}

// send carries out one request.
func (c *completer) send(ctx context.Context, group []*completion) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RPCTimeout)
	defer cancel()
	request := &systemv1.CompleteStepsRequest{RunnerId: c.runner[:], Outcomes: make([]*systemv1.Outcome, len(group))}
	for i, one := range group {
		request.Outcomes[i] = one.outcome
	}
	c.metrics.batch("complete", len(group))
	failpoint.Hit("runner.complete.begin")
	response, err := c.orchestrator.CompleteSteps(ctx, request)
	if err != nil {
		return wholeGroup(err)
	}
	failpoint.Hit("runner.complete.stored")
	if len(response.GetResults()) != len(group) {
		return fmt.Errorf("complete steps: %d answers to %d outcomes", len(response.GetResults()), len(group))
	}
	for i, result := range response.GetResults() {
		group[i].answer = result
		c.metrics.completed(result.GetStatus())
	}
	return nil
}
