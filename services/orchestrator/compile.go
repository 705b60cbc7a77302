package orchestrator

import (
	"slices"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/pipeline"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// NewCompile returns the function by which the store reads stored pipelines.
func NewCompile() (store.Compile, error) {
	compiler, err := pipeline.NewCompiler()
	if err != nil {
		return nil, err
	}
	return func(source string) (*store.Pipeline, error) {
		compiled, err := compiler.Compile("", []byte(source))
		if err != nil {
			return nil, err
		}
		return storePipeline(compiled)
	}, nil
}

// storePipeline is what the store must know of a pipeline.
func storePipeline(c *pipeline.Compiled) (*store.Pipeline, error) {
	p := &store.Pipeline{
		Digest: c.Digest, Name: c.Name, Version: c.Version, OutputStep: c.ResultStep.Name, Callbacks: c.CallbackEvents,
		NoCalls: !slices.ContainsFunc(c.Steps, func(s *pipeline.Step) bool { return s.Kind == pipeline.LLM }),
		Labels:  c.Labels, Inputs: make([]store.StepInputs, len(c.Steps)),
		MaxSteps: c.MaxSteps, MaxRuns: c.MaxRuns,
		Interactive: planOf(c, pawlv1.RunClass_RUN_CLASS_INTERACTIVE), Batch: planOf(c, pawlv1.RunClass_RUN_CLASS_BATCH),
	}
	if c.Budget > 0 {
		p.Budget = &c.Budget
	}
	for i, step := range c.Steps {
		p.Inputs[i] = store.StepInputs{Whole: inputsOf(step.Refs(false)), Shard: inputsOf(step.Refs(true))}
	}
	return p, nil
}

func inputsOf(r pipeline.Refs) store.Inputs { return store.Inputs{Run: r.Input, Steps: r.Steps} }

// planOf is the machine's plan for runs of a class.
func planOf(c *pipeline.Compiled, class pawlv1.RunClass) *machine.Plan {
	plan := &machine.Plan{
		Total: len(c.Steps), Deadline: c.DeadlineFor(class), UndoOnFailure: c.UndoOnFailure, UndoOnCancel: c.UndoOnCancel,
		Steps: make([]machine.Step, len(c.Steps)),
	}
	for i, step := range c.Steps {
		plan.Steps[i] = machine.Step{
			Name: step.Name, Needs: step.Needs, FanOut: step.FanOut, Concurrency: step.Concurrency,
			OnError: machine.OnError(step.OnError), OnAmbiguous: machine.OnAmbiguous(step.OnAmbiguous), Retry: step.Retry,
			MaxLost: step.MaxLost, MaxCalls: maxCalls(step), HardTimeout: step.Timeouts.Hard,
		}
	}
	return plan
}

// maxCalls bounds the requests of steps that ask models; others send none.
func maxCalls(s *pipeline.Step) int {
	if s.Kind == pipeline.LLM {
		return s.MaxCalls
	}
	return 0
}
