package steprunner

import (
	"pawl.internal/services/internal/pipeline"
	"pawl.internal/services/steprunner/step"
)

// Use makes the runner execute the steps of a kind otherwise. It is for before the runner runs.
func Use(s *Service, kind pipeline.Kind, does step.Kind) { s.attempts.executor.kinds[kind] = does }
