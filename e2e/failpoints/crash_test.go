package failpoints

import "slices"

// crash is a point at which a process is killed, and what must come of it.
type crash struct {
	// rule is what the failpoint's rule says before its `=`.
	rule string
	load load
	// policy is the pipeline's on_ambiguous, where it matters.
	policy string
	// status is how the runs end.
	status string
	// requests is how often the question that was under way, if any, reaches the provider; all others do once.
	requests int
	// doubts is how many requests are of unknown fate.
	doubts int
	// ci says that it belongs to the short set.
	ci bool
}

// The policies.
const (
	retry  = "retry"
	review = "review"
	fail   = "fail"
)

// crashes are all points, and some in several ways.
func crashes() []crash {
	return slices.Concat(intakeCrashes(), orchestratorCrashes(), runnerCrashes(), gatewayCrashes(), ambiguousCrashes())
}

func once(rule string, l load) crash { return crash{rule: rule, load: l, status: "done", requests: 1} }

func (c crash) short() crash             { c.ci = true; return c }
func (c crash) ends(status string) crash { c.status = status; return c }

// doubtful is a crash after which nobody knows whether the provider has the request.
func (c crash) doubtful(requests int, policy string) crash {
	c.requests, c.doubts, c.policy = requests, 1, policy
	return c
}

func intakeCrashes() []crash {
	return []crash{
		once("intake.submit.checked", usual),
		once("intake.submit.created", usual).short(),
	}
}

func orchestratorCrashes() []crash {
	lost := held(nil, runnerDies)
	cancelled := held(nil, isCancelled)
	late := held(map[string]any{"deadline": "1s"}, timePasses)
	return []crash{
		once("orchestrator.create.commit", usual),
		once("orchestrator.create.committed", usual).short(),
		once("orchestrator.publish.begin", usual).short(),
		once("orchestrator.publish.added", usual),
		once("orchestrator.publish.end", usual),
		once("stream.publish.between", usual),
		once("orchestrator.group.commit(claim)", usual),
		once("orchestrator.group.committed(claim)", usual),
		once("orchestrator.claim.committed", usual),
		once("orchestrator.complete.received", usual),
		once("orchestrator.group.commit(durable)", usual),
		once("orchestrator.group.committed(durable)", usual).short(),
		once("orchestrator.complete.committed", usual),
		once("orchestrator.dispatch.read", backlog),
		once("orchestrator.dispatch.committed", backlog),
		once("orchestrator.sweep.found(timer)", refused),
		once("orchestrator.sweep.committed(timer)", refused),
		once("orchestrator.sweep.found(lease)", lost),
		once("orchestrator.sweep.committed(lease)", lost),
		once("orchestrator.sweep.found(deadline)", late).ends("failed"),
		once("orchestrator.sweep.committed(deadline)", late).ends("failed"),
		once("orchestrator.sweep.found(entry)", forgotten),
		once("orchestrator.sweep.committed(entry)", forgotten),
		once("orchestrator.sweep.found(consumer)", unread),
		once("orchestrator.sweep.committed(consumer)", unread),
		once("stream.ack.between(orchestrator)", unread),
		once("orchestrator.janitor.emptied", unread),
		once("orchestrator.relay.owed", cancelled).ends("cancelled"),
		once("orchestrator.relay.told", cancelled).ends("cancelled"),
		once("orchestrator.relay.aborted", cancelled).ends("cancelled"),
		once("orchestrator.heartbeat.received", usual),
		once("orchestrator.heartbeat.committed", usual),
		once("orchestrator.release.committed", held(nil, runnerLeaves)),
	}
}

func runnerCrashes() []crash {
	leaves := held(nil, runnerLeaves)
	return []crash{
		once("runner.entry.read", usual),
		once("runner.claim.granted", usual).short(),
		once("runner.execute", usual),
		once("runner.execute(last)", usual),
		once("runner.generate.begin", usual),
		once("runner.generate.waiting", usual),
		once("runner.generate.granted", usual),
		once("runner.generate.answered", usual).short(),
		once("runner.complete.begin", usual),
		once("runner.complete.stored", usual).short(),
		once("stream.ack.between(step-runner)", usual),
		once("runner.release.begin", leaves),
		once("runner.release.end", leaves),
	}
}

func gatewayCrashes() []crash {
	one, cancelled := single(line), held(nil, isCancelled)
	return []crash{
		once("gateway.permit.sync", one),
		once("gateway.permit.synced", one),
		once("gateway.permit.granted", one).short(),
		once("gateway.group.commit#1", one),
		once("gateway.group.committed#1", one).doubtful(1, retry),
		once("gateway.call.recorded", one).doubtful(1, retry).short(),
		once("gateway.group.commit#2", one).doubtful(2, retry),
		once("gateway.group.committed#2", one),
		once("gateway.answer.stored", one).short(),
		once("gateway.answer.told", one),
		once("gateway.spend.owed", one),
		once("gateway.spend.told", one),
		once("gateway.judge.found", held(nil, gatewayDies)).doubtful(2, retry),
		once("gateway.judge.settled", held(nil, gatewayDies)).doubtful(2, retry),
		once("gateway.gate.stored", cancelled).ends("cancelled").doubtful(1, retry),
	}
}

// ambiguousCrashes are those in the gap that no design closes, under each policy.
func ambiguousCrashes() (list []crash) {
	for _, rule := range []string{"gateway.answer.begun", "gateway.answer.read", "gateway.permit.released"} {
		list = append(list,
			once(rule, single(line)).doubtful(2, retry).short(),
			once(rule, single(lineReview)).doubtful(1, review).ends("needs_review"),
			once(rule, single(lineFail)).doubtful(1, fail).ends("failed"),
		)
	}
	return list
}
