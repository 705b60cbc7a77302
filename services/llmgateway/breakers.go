package llmgateway

import (
	"errors"
	"time"

	"pawl.internal/services/llmgateway/breaker"
	"pawl.internal/services/llmgateway/catalog"
	"pawl.internal/services/llmgateway/failure"
	"pawl.internal/services/llmgateway/provider"
)

// breakersOf is what the catalogue says of every target's breaker.
func breakersOf(c *catalog.Catalog) map[string]breaker.Config {
	breakers := map[string]breaker.Config{}
	for _, t := range c.Targets() {
		if name := breakerOf(t); name != "" {
			breakers[name] = breaker.Config(t.Provider.Breaker)
		}
	}
	return breakers
}

// breakerOf is the name of the target's breaker. A simulated model that is asked to fail by its name has none: it fails on
// purpose, and by any name.
func breakerOf(t catalog.Target) string {
	if t.Simulates() {
		return ""
	}
	return t.Name()
}

// resting is why a target is not asked whose breaker is open. The step waits without spending an attempt.
func resting(t catalog.Target, wait time.Duration) failure.Failure {
	return failure.Failure{
		Class: failure.Overloaded, Reason: failure.ReasonBreaker, Wait: wait,
		Message: t.Name() + " did not work of late and is left alone for " + wait.Round(time.Millisecond).String(),
	}
}

// healthOf is what a request says of its target: failures that may pass, overload and silence count against it, and limits,
// refusals and what the caller did wrong do not.
func healthOf(x provider.Exchange, f failure.Failure) breaker.Result {
	switch {
	case errors.Is(x.Err, errCancelled), errors.Is(x.Err, errStopping), f.Class == failure.Cancelled:
		return breaker.Neither
	case f.Class == failure.None, f.AnswerAtFault:
		return breaker.Success
	case f.Class == failure.Transient, f.Class == failure.Overloaded, f.Class == failure.Unsure:
		return breaker.Failure
	default:
		return breaker.Alive
	}
}
