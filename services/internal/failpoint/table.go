package failpoint

// Table lists all points, in the order in which a run passes the services. What stands here is what docs/failpoints.md says,
// and what the sweep in e2e/failpoints goes through.
func Table() []Point {
	var all []Point
	for _, part := range [][]Point{intake(), orchestrator(), streams(), runner(), gateway(), endpoint(), economy()} {
		all = append(all, part...)
	}
	return all
}

func intake() []Point {
	return []Point{
		{Name: "intake.submit.checked", Durable: "nothing: the request is only checked", Missing: "the run"},
		{Name: "intake.submit.created", Durable: "the run", Missing: "the client's answer, who repeats with its key"},
		{Name: "intake.schedule.started", Durable: "the run of a schedule's time", Missing: "that this time is past: another replica comes to the same run"},
	}
}

func orchestrator() []Point {
	const sweeps = "timer, deadline, lease, entry or consumer: what was looked for"
	const kinds = "durable or claim: the kind of the group"
	return []Point{
		{Name: "orchestrator.create.commit", Durable: "nothing: all is written, and the COMMIT not sent", Missing: "the run and its key"},
		{Name: "orchestrator.create.committed", Durable: "the run, its key and its first steps", Missing: "the answer and the stream's entries"},
		{Name: "orchestrator.batch.created", Durable: "the batch and its key", Missing: "the answer"},
		{Name: "orchestrator.batch.sealed", Durable: "that all items of the batch are there", Missing: "the answer"},
		{Name: "orchestrator.batch.decided", Durable: "what a person decided about the batch", Missing: "the answer, and all that follows for its runs"},
		{Name: "orchestrator.batch.worked", Durable: "what follows for a part of its runs", Missing: "how far that is"},
		{Name: "orchestrator.publish.begin", Durable: "what a group committed", Missing: "its entries in the streams"},
		{Name: "orchestrator.publish.added", Durable: "the entries of one class", Missing: "those of the other class, and the news for watchers"},
		{Name: "orchestrator.publish.end", Durable: "the entries and the news", Missing: "nothing: only the process knew that they were to be added"},
		{Name: "orchestrator.claim.committed", Durable: "the claim, as far as an asynchronous commit is", Missing: "the runner's answer"},
		{Name: "orchestrator.complete.received", Durable: "nothing of the outcome", Missing: "the outcome's group"},
		{Name: "orchestrator.complete.committed", Durable: "the outcome, and what follows in the run", Missing: "the runner's answer"},
		{Name: "orchestrator.group.commit", Label: kinds, Durable: "nothing: all is written, and the COMMIT not sent", Missing: "the group"},
		{Name: "orchestrator.group.committed", Label: kinds, Durable: "the group", Missing: "its answers and its entries in the streams"},
		{Name: "orchestrator.dispatch.read", Durable: "steps that are READY", Missing: "their dispatch"},
		{Name: "orchestrator.dispatch.committed", Durable: "the steps are QUEUED", Missing: "perhaps their entries in the stream"},
		{Name: "orchestrator.sweep.found", Label: sweeps, Durable: "what was looked for is due", Missing: "the events that follow"},
		{Name: "orchestrator.sweep.committed", Label: sweeps, Durable: "the events that follow", Missing: "the bound of the next look, and what is acknowledged after it"},
		{Name: "orchestrator.janitor.emptied", Durable: "a dead consumer's entries are added again and deleted", Missing: "the consumer's removal"},
		{Name: "orchestrator.relay.owed", Durable: "that a purse is to be closed", Missing: "the gateway does not know"},
		{Name: "orchestrator.relay.told", Durable: "the gateway has closed the purse", Missing: "that it has"},
		{Name: "orchestrator.relay.aborted", Durable: "the gateway has aborted calls", Missing: "that it has"},
		{Name: "orchestrator.heartbeat.received", Durable: "the lease as it was", Missing: "its renewal"},
		{Name: "orchestrator.heartbeat.committed", Durable: "the renewed lease", Missing: "the runner's answer, and what its list of steps tells"},
		{Name: "orchestrator.release.committed", Durable: "the steps are given back", Missing: "the end of the runner's lease, and its answer"},
	}
}

func streams() []Point {
	return []Point{
		{Name: "stream.publish.between", Durable: "the first entry of several", Missing: "the others"},
		{Name: "stream.ack.between", Durable: "entries are deleted", Missing: "their acknowledgement"},
	}
}

func runner() []Point {
	return []Point{
		{Name: "runner.entry.read", Durable: "the entries are delivered to this runner", Missing: "the claims of their steps"},
		{Name: "runner.claim.granted", Durable: "the claims, as far as an asynchronous commit is", Missing: "all of their execution"},
		{Name: "runner.execute", Label: "the step's name", Durable: "the claim", Missing: "the execution"},
		{Name: "runner.generate.begin", Durable: "the claim", Missing: "the question to the gateway"},
		{Name: "runner.generate.waiting", Durable: "the gateway has the question, in memory", Missing: "the permit"},
		{Name: "runner.generate.granted", Durable: "the gateway has a permit; the call goes on without its caller", Missing: "the answer"},
		{Name: "runner.generate.answered", Durable: "the answer, in the gateway's store", Missing: "the step's outcome"},
		{Name: "runner.complete.begin", Durable: "answers that were paid for", Missing: "the outcome, which only this process has"},
		{Name: "runner.complete.stored", Durable: "the outcome", Missing: "the entry's acknowledgement"},
		{Name: "runner.release.begin", Durable: "claims that will not be executed here", Missing: "their release"},
		{Name: "runner.release.end", Durable: "the steps are given back, or the lease is ended", Missing: "the entries' acknowledgement"},
	}
}

func gateway() []Point {
	return []Point{
		{Name: "gateway.permit.sync", Durable: "permits as Redis has them", Missing: "those that are asked for or given back"},
		{Name: "gateway.permit.synced", Durable: "permits in this replica's name, until they expire", Missing: "their use"},
		{Name: "gateway.permit.granted", Durable: "a permit in this replica's name", Missing: "the call's row: surely nothing was sent"},
		{Name: "gateway.group.commit", Durable: "nothing: all is written, and the COMMIT not sent", Missing: "the group"},
		{Name: "gateway.group.committed", Durable: "the group", Missing: "its answers"},
		{Name: "gateway.call.recorded", Durable: "the call's row and its worst case in the purse", Missing: "the first byte to the provider"},
		{Name: "gateway.answer.begun", Durable: "the provider has the request, and begins to answer", Missing: "the answer: the ambiguous gap"},
		{Name: "gateway.answer.read", Durable: "the provider has answered", Missing: "the answer in the store: the ambiguous gap"},
		{Name: "gateway.permit.released", Durable: "the provider has answered, and the permit is given back", Missing: "the answer in the store: the ambiguous gap"},
		{Name: "gateway.answer.stored", Durable: "the answer, its cost and the purse", Missing: "the answer on its way to the runner"},
		{Name: "gateway.answer.told", Durable: "the answer; the runner has it", Missing: "nothing"},
		{Name: "gateway.spend.owed", Durable: "what a run has spent", Missing: "the orchestrator does not know"},
		{Name: "gateway.spend.told", Durable: "the orchestrator knows what a run has spent", Missing: "that it does"},
		{Name: "gateway.judge.found", Durable: "requests of a gateway that has died", Missing: "that they are ambiguous"},
		{Name: "gateway.judge.settled", Durable: "they are ambiguous, and their worst case is booked", Missing: "nothing: only the process counted them"},
		{Name: "gateway.gate.stored", Durable: "the purse is closed", Missing: "the orchestrator's answer"},
	}
}

func endpoint() []Point {
	return []Point{
		{Name: "gateway.scope.taken", Durable: "the scope of an idempotency key", Missing: "the call's row: surely nothing was sent"},
	}
}

func economy() []Point {
	return []Point{
		{Name: "gateway.economy.entered", Durable: "the call's row and its worst case in the purse, waiting for a batch", Missing: "that the step waits"},
		{Name: "gateway.economy.prepared", Durable: "which requests are to be one batch", Missing: "the batch at the provider"},
		{Name: "gateway.economy.made", Durable: "the batch at the provider", Missing: "its name in the store"},
		{Name: "gateway.economy.noted", Durable: "the batch's name in the store", Missing: "nothing: it is looked at when its time comes"},
		{Name: "gateway.economy.settled", Durable: "a batch's answers, their costs and the purses", Missing: "that the batch has ended"},
	}
}
