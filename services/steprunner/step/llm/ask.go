package llm

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/steprunner/repeat"
	"pawl.internal/services/steprunner/step"
)

// ask puts one question and returns its answer, or the failure of the call. While the gateway is away it repeats the very
// same question, which then joins the call that is in flight or gets the stored answer. The stopwatch stands still while
// the lease is unsure, the gateway is away, or a permit is awaited.
func (k *Kind) ask(ctx context.Context, a *step.Attempt, question *systemv1.GenerateRequest) (*systemv1.Answer, error) {
	pace := repeat.NewPace(k.clock)
	for {
		if err := k.prepare(ctx, a, question); err != nil {
			return nil, err
		}
		answer, err := k.follow(ctx, a, question)
		switch {
		case err == nil:
			a.Stopwatch.Resume() // a call that was joined may end without having been granted
			return answer, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !repeat.Passing(err), fault.Is(err, faultv1.ErrorReason_ERROR_REASON_DEADLINE_TOO_SHORT):
			return nil, failureOf(err)
		}
		a.Stopwatch.Pause()
		if err := pace.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// prepare waits for the right to call, and says how much time there is.
func (k *Kind) prepare(ctx context.Context, a *step.Attempt, question *systemv1.GenerateRequest) error {
	a.Stopwatch.Pause()
	if err := a.Confirm(ctx); err != nil {
		return err
	}
	a.Stopwatch.Resume()
	left := a.Deadline.Sub(k.clock.Now())
	if left <= 0 {
		return outOfTime()
	}
	question.DeadlineIn = durationpb.New(left)
	return nil
}

// follow sends the question once and follows what the gateway tells of it. The call does not end with the stream.
func (k *Kind) follow(ctx context.Context, a *step.Attempt, question *systemv1.GenerateRequest) (*systemv1.Answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failpoint.Hit("runner.generate.begin")
	news, err := k.gateway.Generate(ctx, question)
	if err != nil {
		return nil, err
	}
	for {
		message, err := news.Recv()
		if errors.Is(err, io.EOF) {
			return nil, fault.Unavailable(err, "the gateway ended the stream without an answer")
		}
		if err != nil {
			return nil, err
		}
		switch said := message.GetNews().(type) {
		case *systemv1.GenerateResponse_Waiting_:
			a.Stopwatch.AwaitPermit(said.Waiting.GetLimit())
			failpoint.Hit("runner.generate.waiting")
		case *systemv1.GenerateResponse_Granted_:
			a.Stopwatch.Resume()
			failpoint.Hit("runner.generate.granted")
		case *systemv1.GenerateResponse_Answer:
			failpoint.Hit("runner.generate.answered")
			return said.Answer, nil
		case *systemv1.GenerateResponse_Failure:
			return nil, &callError{said.Failure}
		default:
			return nil, fmt.Errorf("the gateway sent news of unknown kind %T", said)
		}
	}
}

// callError is a call that ended without an answer.
type callError struct{ failure *systemv1.CallFailure }

func (e *callError) Error() string { return e.failure.GetReason() + ": " + e.failure.GetMessage() }

// failureOf says what an error of Generate means for the step. A failed call is handed on as it is.
func failureOf(err error) error {
	if _, ok := errors.AsType[*callError](err); ok {
		return err
	}
	refused := fault.Of(err)
	switch {
	case refused.Reason == faultv1.ErrorReason_ERROR_REASON_MODEL_UNKNOWN:
		return step.Permanent(step.ReasonModelUnavailable, refused.Message)
	case refused.Reason == faultv1.ErrorReason_ERROR_REASON_DEADLINE_TOO_SHORT:
		return outOfTime()
	case refused.Code == codes.InvalidArgument:
		return step.Permanent(step.ReasonInvalidInput, "the gateway refused the question: "+refused.Message)
	case refused.Code == codes.ResourceExhausted:
		return step.Permanent(step.ReasonInputTooLarge, "the question is larger than the gateway accepts")
	default:
		return step.Transient(step.ReasonHandlerError, "the llm-gateway had a fault of its own; its log has the details")
	}
}

// outOfTime is a failure that no retry follows, because there is no time for one.
func outOfTime() error {
	return step.Transient(step.ReasonDeadlineExceeded, "the run's deadline leaves no time for a model call")
}
