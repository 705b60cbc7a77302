package scenario

import (
	"fmt"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// shortLeases let the death of a process be noticed in seconds.
func shortLeases() []string {
	return []string{"PAWL_ORCHESTRATOR_LEASE=2s", "PAWL_LLM_GATEWAY_LEASE=2s"}
}

// crashable starts a system that notices deaths soon, and its provider.
func crashable(t *testing.T) (*harness.System, *harness.Provider) {
	t.Helper()
	p := harness.StartProvider(t)
	return harness.Start(t, harness.Config{Provider: p, Env: shortLeases()}), p
}

// TestI01_FinishedStepNeverRunsAgain kills the step-runner while the calls of step 2 are in flight. What was done stays
// done, and what was asked is not asked again.
func TestI01_FinishedStepNeverRunsAgain(t *testing.T) {
	s, p := crashable(t)
	contract := contracts(t)[5]
	release := p.Inject(simulated.Fault{Kind: "hold", Contains: fieldsPrompt})
	run, err := extract(s, contract, "i01")
	require.NoError(t, err)
	p.AwaitInFlight(8) // as many shards as work at the same time

	s.Kill(serve.StepRunner)
	release()

	requireExtracted(t, s, contract, run)
	sections := stepNamed(t, s.Steps(run), "sections")
	require.Equal(t, 1, sections.Attempt)
	require.Equal(t, 1, s.Count("SELECT attempt FROM core.pipeline_step_result WHERE run_id = $1 AND step = 'sections'", run))
	require.Equal(t, 1, s.Count("SELECT count(*) FROM llm.llm_call_log WHERE run_id = $1 AND step = 'sections'", run))
	require.Empty(t, p.AskedTwice())
	requireAskedOnce(t, s, p, 0, run)
}

// TestI02_TokenNeverBoughtTwice interrupts calls at both moments that matter: the answer comes while no runner waits for
// it, and it comes after the next attempt has asked.
func TestI02_TokenNeverBoughtTwice(t *testing.T) {
	s, p := crashable(t)
	all := contracts(t)
	t.Run("answered while nobody waits", func(t *testing.T) {
		s, p := s.For(t), p.For(t)
		before := p.Report()
		release := p.Inject(simulated.Fault{Kind: "hold", Contains: fieldsPrompt})
		run, err := extract(s, all[6], "i02 nobody")
		require.NoError(t, err)
		p.AwaitInFlight(8)
		interrupted := inFlight(s, run)
		require.Len(t, interrupted, 8)
		s.Pause(serve.StepRunner) // so that no other runner can be there before the answers are
		release()
		harness.Eventually(t, func() error {
			if n := len(inFlight(s, run)); n > 0 {
				return fmt.Errorf("%d calls are not answered", n)
			}
			return nil
		})
		s.Kill(serve.StepRunner)
		requireExtracted(t, s, all[6], run)
		requireReused(t, s, run, interrupted)
		requireAskedOnce(t, s, p, before.Received, run)
	})
	t.Run("answered after the next attempt has asked", func(t *testing.T) {
		s, p := s.For(t), p.For(t)
		before := p.Report()
		release := p.Inject(simulated.Fault{Kind: "hold", Contains: fieldsPrompt})
		run, err := extract(s, all[7], "i02 joined")
		require.NoError(t, err)
		p.AwaitInFlight(8)
		s.Kill(serve.StepRunner)
		harness.Eventually(t, func() error {
			again := 0
			for _, step := range s.Steps(run) {
				if step.Name == "fields" && step.Shard != nil && step.Status == "running" && step.Attempt > 1 {
					again++
				}
			}
			if again < 8 {
				return fmt.Errorf("%d steps are attempted again", again)
			}
			return nil
		})
		release()
		requireExtracted(t, s, all[7], run)
		requireAskedOnce(t, s, p, before.Received, run)
	})
	t.Run("handed to the runners twice", func(t *testing.T) {
		s, p := s.For(t), p.For(t)
		before := p.Report()
		s.Serve(serve.StepRunner) // whose hands the second entry may fall into
		release := p.Inject(simulated.Fault{Kind: "hold", Contains: sectionsPrompt})
		run, err := extract(s, all[8], "i02 twice")
		require.NoError(t, err)
		p.AwaitInFlight(1)
		announce(t, s, run, "sections", 5)
		awaitWaiting(t, s, 1) // the first entry stays until its step is done
		release()
		requireExtracted(t, s, all[8], run)
		announce(t, s, run, "sections", 5)
		awaitWaiting(t, s, 0)
		require.Equal(t, 1, stepNamed(t, s.Steps(run), "sections").Attempt)
		requireAskedOnce(t, s, p, before.Received, run)
	})
}

// inFlight returns the keys of the run's calls that have no answer yet.
func inFlight(s *harness.System, run string) (keys []string) {
	for _, call := range s.Calls(run) {
		if call.State == "in_flight" {
			keys = append(keys, call.CallKey)
		}
	}
	return keys
}

// requireReused fails unless the next attempts took the answers of the interrupted calls.
func requireReused(t *testing.T, s *harness.System, run string, interrupted []string) {
	t.Helper()
	for _, call := range s.Calls(run) {
		if slices.Contains(interrupted, call.CallKey) {
			require.Positive(t, call.Replays, "%+v", call)
		}
	}
}

// announce adds the step's id to the stream again, as a sweep does that takes the entry for lost.
func announce(t *testing.T, s *harness.System, run, step string, times int) {
	t.Helper()
	for range times {
		require.NoError(t, s.Redis.Client.XAdd(t.Context(), &redis.XAddArgs{
			Stream: s.Streams()[0], Values: []string{"run", run, "step", step, "shard", "-1", "generation", "0"},
		}).Err())
	}
}

// awaitWaiting waits until so many entries of the stream are not dealt with.
func awaitWaiting(t *testing.T, s *harness.System, want int64) {
	t.Helper()
	harness.Eventually(t, func() error {
		n, err := s.Redis.Client.XLen(t.Context(), s.Streams()[0]).Result()
		if err == nil && n != want {
			err = fmt.Errorf("%d entries are not dealt with", n)
		}
		return err
	})
}

// TestI04_NothingAcceptedIsLost kills every service, in turn and twice, while the ten contracts go through.
func TestI04_NothingAcceptedIsLost(t *testing.T) {
	s, p := crashable(t)
	all := contracts(t)
	p.Inject(simulated.Fault{Kind: "latency", Argument: "1s~2s"}) // long enough for every death to be felt

	// These hold no call to a model, or can give it to another: nothing is sent twice, whenever they die.
	t.Run("services that the provider does not see", func(t *testing.T) {
		s, p := s.For(t), p.For(t)
		release := p.Inject(simulated.Fault{Kind: "hold", Contains: summaryPrompt}) // no run ends before the last death
		wait := extractAll(t, s, all, "i04 unseen")
		for i, service := range slices.Repeat([]string{serve.Orchestrator, serve.StepRunner, serve.Intake}, 2) {
			awaitReceived(t, p, 14*i+5) // of about 100: the deaths are spread over the work
			s.Kill(service)
		}
		runs := wait()
		for _, id := range runs {
			run, err := s.Run(id)
			require.NoError(t, err)
			require.False(t, run.Ended(), "run %s ended too soon to prove anything: %+v", id, run)
		}
		release()
		for i, id := range runs {
			requireExtracted(t, s, all[i], id)
		}
		requireAskedOnce(t, s, p, 0, runs...)
		require.Equal(t, len(all), s.Count("SELECT count(*) FROM core.pipeline_run"), "a submit made a second run")
	})

	// A gateway that dies while a request is in flight leaves it unknown whether the provider has taken it. Such a request,
	// and no other, is sent once more (on_ambiguous: retry); a second doubt would end the run, so the second death comes
	// when the doubts of the first are over.
	t.Run("the gateway", func(t *testing.T) {
		s, p := s.For(t), p.For(t)
		before := p.Report()
		release := p.Inject(simulated.Fault{Kind: "hold", Contains: summaryPrompt})
		wait := extractAll(t, s, all, "i04 gateway")
		awaitReceived(t, p, before.Received+30)
		require.Positive(t, p.Report().InFlight)
		s.Kill(serve.LLMGateway)
		runs := wait()
		for _, id := range runs {
			s.AwaitRun(id, func(run harness.RunState) bool { return run.CurrentStep != nil && *run.CurrentStep == "summary" })
		}
		p.AwaitInFlight(len(all))
		require.NotEmpty(t, doubts(s, runs), "the first death was not felt")
		s.Kill(serve.LLMGateway)
		release()
		for i, id := range runs {
			requireExtracted(t, s, all[i], id)
		}
		requireOnceUnlessDoubtful(t, s, p, before, runs)
	})
}

// awaitReceived waits until the provider has got so many requests.
func awaitReceived(t *testing.T, p *harness.Provider, n int) {
	t.Helper()
	harness.Eventually(t, func() error {
		if got := p.Report().Received; got < n {
			return fmt.Errorf("the provider has got %d requests, not %d", got, n)
		}
		return nil
	})
}

// doubts returns the calls of the runs that may have been sent more than once.
func doubts(s *harness.System, runs []string) (found []harness.Call) {
	for _, id := range runs {
		for _, call := range s.Calls(id) {
			if len(call.Sent()) > 1 {
				found = append(found, call)
			}
		}
	}
	return found
}

// requireOnceUnlessDoubtful fails unless every question was sent once, or twice when the first request's fate is unknown.
func requireOnceUnlessDoubtful(t *testing.T, s *harness.System, p *harness.Provider, before simulated.Report, runs []string) {
	t.Helper()
	questions, doubtful := 0, 0
	for _, id := range runs {
		for _, call := range s.Calls(id) {
			questions++
			require.Equal(t, "answered", call.State, "%+v", call)
			sent := call.Sent()
			require.LessOrEqual(t, len(sent), 2, "%+v", call)
			if len(sent) == 2 {
				doubtful++
				require.Equal(t, "call_ambiguous", sent[0].Reason, "sent again without a doubt: %+v", call)
			}
		}
	}
	sent := p.Report().Received - before.Received
	t.Logf("%d questions, of which %d came into doubt; the provider got %d requests", questions, doubtful, sent)
	require.LessOrEqual(t, sent, questions+doubtful)
	require.GreaterOrEqual(t, sent, questions)
}
