package mutation

// All lists the mutations: for each guard that a promise rests on, the smallest change that takes it away.
func All() []Mutation {
	var all []Mutation
	for _, part := range [][]Mutation{machineGuards(), storeGuards(), loopGuards(), runnerGuards(), gatewayGuards(), targetGuards(), endpointGuards()} {
		all = append(all, part...)
	}
	return all
}

func machineGuards() []Mutation {
	const claim, timer = "services/orchestrator/machine/claim.go", "services/orchestrator/machine/timer.go"
	return []Mutation{
		{
			Name: "fence", Guard: "an outcome is taken only from the claim that holds the step", File: claim,
			Old:    "case l.Fence == e.Fence && l.Status == StepRunning:",
			New:    "case l.Status == StepRunning:",
			Caught: simulation(),
		},
		{
			Name: "stored once", Guard: "an outcome that was stored is answered, not applied again", File: claim,
			Old:    "case l.Fence == e.Fence && free:",
			New:    "case l.LastFence == e.Fence && free:",
			Caught: simulation(),
		},
		{
			Name: "claim number", Guard: "a forgotten claim counts only when none came after it", File: claim,
			Old:    "free && e.ClaimNo == l.ClaimNo+1:",
			New:    "free:",
			Caught: simulation(),
		},
		{
			Name: "used fence", Guard: "a fence that was used before claims nothing", File: claim,
			Old:    "e.Fence == ID{}, e.Fence == l.LastFence:",
			New:    "e.Fence == ID{}:",
			Caught: simulation(),
		},
		{
			Name: "compare and set", Guard: "a lease or timer of an earlier claim takes nothing from the one that holds the step", File: timer,
			Old:    "if err == nil && l.Fence != fence {",
			New:    "if err == nil && false {",
			Caught: simulation(),
		},
		{
			Name: "release", Guard: "a step that is handed back unexecuted has its attempt back", File: claim,
			Old:    "l.Attempt--\n\tif c.awaited(l.Step) {\n\t\tc.letGo(l)\n\t} else {\n\t\tc.record",
			New:    "if c.awaited(l.Step) {\n\t\tc.letGo(l)\n\t} else {\n\t\tc.record",
			Caught: simulation(),
		},
		{
			Name: "lost workers", Guard: "a step that kills its workers is given up after max_lost", File: timer,
			Old:    "if l.Losses >= max(c.plan.Steps[l.Step].MaxLost, 1) || c.awaited(l.Step) {",
			New:    "if c.awaited(l.Step) {",
			Caught: simulation(),
		},
		{
			Name: "not due yet", Guard: "a timer acts only when its time has come by PostgreSQL's clock", File: timer,
			Old:    "if err == nil && l.DueAt.After(c.now) {",
			New:    "if err == nil && false {",
			Caught: simulation(),
		},
		{
			Name: "ambiguity", Guard: "a call of unknown fate is repeated once, as the step allows", File: "services/orchestrator/machine/outcome.go",
			Old:    "case policy == FailAmbiguous || l.AmbiguousOK > 0:",
			New:    "case policy == FailAmbiguous:",
			Caught: simulation(),
		},
	}
}

func storeGuards() []Mutation {
	const group = "services/orchestrator/store/db/group.sql.go"
	return []Mutation{
		{
			Name: "row lock", Guard: "two replicas never decide about one run at the same time", File: group,
			Old:    "ORDER BY r.id FOR NO KEY UPDATE OF r",
			New:    "ORDER BY r.id",
			Caught: test("./services/orchestrator/store", "TestLastTwoShardsOnTwoReplicas"),
		},
		{
			Name: "durable outcome", Guard: "an outcome is on disk before it is answered", File: "services/orchestrator/store/group.go",
			Old:    "\tif !g.durable {\n",
			New:    "\tif true {\n",
			Caught: test("./services/orchestrator/store", "TestStoredOutcomeSurvivesACrash|TestKilledDatabaseLosesNothing"),
		},
		{
			Name: "idempotency key", Guard: "the key and its run are one transaction, and one winner", File: "services/orchestrator/store/db/create.sql.go",
			Old:    "ON CONFLICT DO NOTHING\nRETURNING tenant, key\n",
			New:    "ON CONFLICT (tenant, key) DO UPDATE SET resource_id = excluded.resource_id\nRETURNING tenant, key\n",
			Caught: test("./services/orchestrator/store", "TestEqualKeys"),
		},
	}
}

func loopGuards() []Mutation {
	return []Mutation{
		{
			Name: "reaper", Guard: "steps of runners that are gone are found", File: "services/orchestrator/sweep.go",
			Old:    "if s.judge.mayExpire(due.Now) {\n\t\tagain, err := s.submit(ctx, leaseSweep",
			New:    "if false {\n\t\tagain, err := s.submit(ctx, leaseSweep",
			Caught: test("./services/orchestrator", "TestDeadRunnerLosesAllItsStepsAtOnce"),
		},
		{
			Name: "judge", Guard: "nobody is expired because of an outage of ours", File: "services/orchestrator/judge.go",
			Old:    "then.Sub(j.since) >= j.lease",
			New:    "then.Sub(j.since) >= 0",
			Caught: test("./services/orchestrator", "TestNobodyIsExpiredByAnOutageOfTheOrchestrator|TestJudge|TestInterruptions"),
		},
		{
			Name: "overdue", Guard: "an id that Redis lost is added again", File: "services/orchestrator/janitor.go",
			Old:    "j.sweeper.submit(ctx, entrySweep, overdues(late[class], at))",
			New:    "j.sweeper.submit(ctx, entrySweep, overdues(nil, at))",
			Caught: test("./services/orchestrator", "TestI03_FlushedRedisLosesNothing"),
		},
	}
}

func runnerGuards() []Mutation {
	return []Mutation{
		{
			Name: "last chance apart", Guard: "a step that kills its workers takes no other along", File: "services/steprunner/apart.go",
			Old:    "return a.hold == h",
			New:    "return true",
			Caught: test("./services/steprunner", "TestStepsOnTheirLastChanceAreExecutedApart"),
		},
		{
			Name: "grants at shutdown", Guard: "what a leaving runner was granted and never got is not lost with it", File: "services/orchestrator/heartbeat.go",
			Old:    "unlisted, err := s.releaseUnlisted(ctx, runner, req.GetHolds())",
			New:    "unlisted, err := int32(0), error(nil)",
			Caught: test("./services/orchestrator", "TestGrantsThatALeavingRunnerNeverGotAreReleased"),
		},
		{
			Name: "runner's own lease", Guard: "a runner begins nothing with a lease that it cannot confirm", File: "services/steprunner/heartbeat.go",
			Old:    "l.length > 0 && age <= l.length/5*4",
			New:    "l.length > 0 && age >= 0",
			Caught: test("./services/steprunner", "TestNoCallBeginsWhileTheLeaseIsUnconfirmed"),
		},
		{
			Name: "stop before lease", Guard: "a step that was taken away stops before the lease is good", File: "services/steprunner/heartbeat.go",
			Old:    "\t\t\tl.obey(answer.GetStops())\n\t\t\tl.confirm(sent, answer.GetLease().AsDuration())\n",
			New:    "\t\t\tl.confirm(sent, answer.GetLease().AsDuration())\n\t\t\tl.obey(answer.GetStops())\n",
			Caught: test("./services/steprunner", "TestI06_WhatWasTakenAway"),
		},
		{
			Name: "entry until stored", Guard: "an entry is deleted only when its outcome is stored", File: "services/steprunner/lane.go",
			Old:    "\t\tl.attempts.begin(ctx, l, c)\n",
			New:    "\t\tl.inbox.delete(c.entry)\n\t\tl.attempts.begin(ctx, l, c)\n",
			Caught: test("./services/steprunner", "TestEntryIsDeletedOnlyWhenTheOutcomeIsStored"),
		},
	}
}

func gatewayGuards() []Mutation {
	const change, request = "services/llmgateway/store/change.go", "services/llmgateway/request.go"
	return []Mutation{
		{
			Name: "call key", Guard: "an attempt's question has the key of the attempt before", File: "services/llmgateway/ask.go",
			Old:    `number, step.GetGeneration(), a.request, a.key.RunID,`,
			New:    `number, step.GetGeneration(), a.request, uuid.New(),`,
			Caught: test("./e2e/scenario", "TestI02_TokenNeverBoughtTwice"),
		},
		{
			Name: "key taken", Guard: "whoever finds the call's row joins, and sends nothing", File: change,
			Old:    "case c != nil && (c.taken(b.Sending.Holder) || b.Item != nil && c.inFlight()):",
			New:    "case false:",
			Caught: test("./services/llmgateway", "TestI02_"),
		},
		{
			Name: "unclear", Guard: "a call of unknown fate is not repeated unless the step allows", File: change,
			Old:    "case c != nil && c.ambiguous() > b.AmbiguousOK:",
			New:    "case false:",
			Caught: test("./services/llmgateway/store", "TestAmbiguousRequests"),
		},
		{
			Name: "closed purse", Guard: "nothing is sent for a run that has ended", File: change,
			Old:    "case b.Epoch < p.epoch || !p.closedAt.IsZero():",
			New:    "case false:",
			Caught: test("./services/llmgateway", "TestAClosedGateLetsNothingOut|TestI12_"),
		},
		{
			Name: "budget", Guard: "the worst case is reserved before anything is sent", File: change,
			Old:    "case !p.affords(b.Sending.WorstCase):",
			New:    "case false:",
			Caught: test("./services/llmgateway", "TestI09_ABudgetAdmitsWhatFits"),
		},
		{
			Name: "gateway's own lease", Guard: "a gateway that was paused past its lease sends nothing", File: request,
			Old:    "if ended == nil && r.service.lease.goodSince(recorded) {",
			New:    "if ended == nil {",
			Caught: test("./services/llmgateway", "TestWithoutALeaseNothingIsSent"),
		},
		{
			Name: "unbroken lease", Guard: "a lease that was renewed too late is not good for what was before", File: "services/llmgateway/lease.go",
			Old:    "unbroken := !l.held.After(then)",
			New:    "unbroken := true",
			Caught: test("./services/llmgateway", "TestI06_ALeaseThatWasRenewedTooLate"),
		},
		{
			Name: "steady judge", Guard: "no call is given up because of an outage of the store", File: "services/llmgateway/lease.go",
			Old:    "!l.steady.IsZero() && l.confirmed.Sub(l.steady) >= l.length &&",
			New:    "!l.steady.IsZero() &&",
			Caught: test("./services/llmgateway", "TestOnlyASteadyGatewayMayJudge"),
		},
		{
			Name: "masked request", Guard: "the call log holds no personal data of requests", File: "services/llmgateway/calllog.go",
			Old:    "masked, err := redact.MaskJSON(a.request)",
			New:    "_, err := redact.MaskJSON(a.request); masked := a.request",
			Caught: test("./services/llmgateway", "TestTheCallLogKeepsTheRequestMasked"),
		},
		{
			Name: "masked words of providers", Guard: "a run's error holds no personal data that a provider repeats", File: "services/llmgateway/failure/message.go",
			Old:    `text, _ = redact.Mask(keyLike.ReplaceAllString(text, "[key]"))`,
			New:    `text = keyLike.ReplaceAllString(text, "[key]"); _, _ = redact.Mask("")`,
			Caught: test("./services/llmgateway/failure", "TestPersonalDataAreMasked"),
		},
		{
			Name: "corrected once", Guard: "a corrected answer that a step has no use for is not given to it again", File: "services/llmgateway/corrected.go",
			Old:    "s.store.TakeCorrected(ctx, a.key.RunID, digests, number)",
			New:    "s.store.TakeCorrected(ctx, a.key.RunID, digests, 1)",
			Caught: test("./services/llmgateway", "TestI02_AnAnswerThatWasMisread"),
		},
		{
			Name: "tokens per minute", Guard: "buckets fill with nine tenths of the limit", File: "services/llmgateway/permit/bucket.lua",
			Old:    "levels[d] + 0.9 * limits[d] * elapsed / minute",
			New:    "levels[d] + 1.9 * limits[d] * elapsed / minute",
			Caught: test("./services/llmgateway/permit", "TestTokensPerMinuteHold"),
		},
		{
			Name: "pause", Guard: "a pause holds for all replicas", File: "services/llmgateway/permit/sync.lua",
			Old:    "if now >= g.open and now >= g.pause then",
			New:    "if now >= g.open then",
			Caught: test("./services/llmgateway/permit", "TestWhatWasLearned"),
		},
		{
			Name: "cut stream of Anthropic's", Guard: "a stream without message_stop is no success", File: "services/llmgateway/provider/anthropic/stream.go",
			Old:    "case !a.whole: // what",
			New:    "case !a.whole && a.answer.StopReason == \"\": // what",
			Caught: test("./services/llmgateway/provider/anthropic", "TestFormat"),
		},
		{
			Name: "cut stream of Gemini's", Guard: "a stream without a finish reason is no success", File: "services/llmgateway/provider/gemini/stream.go",
			Old:    "len(a.Candidates) > 0 && a.Candidates[0].FinishReason != \"\"",
			New:    "len(a.Candidates) > 0",
			Caught: test("./services/llmgateway/provider/gemini", "TestFormat"),
		},
		{
			Name: "thoughts of Gemini's", Guard: "thoughts are billed beside what was said", File: "services/llmgateway/provider/gemini/usage.go",
			Old:    "Output: c.Candidates + c.Thoughts,",
			New:    "Output: c.Candidates,",
			Caught: test("./services/llmgateway/price", "TestAnswersCostWhatTheyCost"),
		},
		{
			Name: "sum of the counts", Guard: "counts that do not add up are not billed", File: "services/llmgateway/provider/openai/usage.go",
			Old:    "n.Total != nil && *n.Total != u.Input+u.Output ||",
			New:    "",
			Caught: test("./services/llmgateway/provider/openai", "TestFormat"),
		},
		{
			Name: "refused before it is sent", Guard: "what a format cannot say costs no permit and no row", File: "services/llmgateway/request.go",
			Old:    "if refused, f := r.refused(); f.Class != failure.None {",
			New:    "if refused, f := r.refused(); f.Class == failure.Unsure {",
			Caught: test("./services/llmgateway", "TestArgumentsThatAreNoJSON"),
		},
	}
}

func targetGuards() []Mutation {
	return []Mutation{
		{
			Name: "one probe", Guard: "a target that may be back is tried by one request of all replicas", File: "services/llmgateway/breaker/breaker.lua",
			Old:    "if now >= open and probe == '' then",
			New:    "if now >= open then",
			Caught: test("./services/llmgateway/breaker", "TestOneProbeOverAllReplicas"),
		},
		{
			Name: "walk not counted", Guard: "a key that is refused spends none of the step's requests", File: "services/llmgateway/attempt.go",
			Old:    "a.calls--",
			New:    "",
			Caught: test("./services/llmgateway", "TestRefusedKeysAreWalkedPast"),
		},
		{
			Name: "wrong models file", Guard: "a models file that is wrong changes nothing", File: "services/llmgateway/reload.go",
			Old:    "what it said before stays in use\", \"error\", err)\n\t\treturn\n\t}\n\tif err := s.activate(",
			New:    "what it said before stays in use\", \"error\", err)\n\t\tc = &catalog.Catalog{}\n\t}\n\tif err := s.activate(",
			Caught: test("./services/llmgateway", "TestTheModelsFileIsTakenOverWhileCallsGoOn"),
		},
	}
}

func endpointGuards() []Mutation {
	return []Mutation{
		{
			Name: "key of another question", Guard: "an idempotency key stands for one question", File: "services/llmgateway/endpoint.go",
			Old:    "err = compat.ErrKeyReused",
			New:    "_ = compat.ErrKeyReused",
			Caught: test("./services/llmgateway", "TestI02_TheEndpointReplays"),
		},
		{
			Name: "owed to nobody", Guard: "what is spent outside of runs is no debt to the orchestrator", File: "services/llmgateway/store/group.go",
			Old:    "p.owed = !p.outside",
			New:    "p.owed = true",
			Caught: test("./services/llmgateway", "TestScopesOfTheEndpointAreOwedToNobody"),
		},
		{
			Name: "answer of one model", Guard: "an answer that a client has begun to read comes from one model", File: "services/llmgateway/attempt.go",
			Old:    "if !more || a.isSpent() || a.waitingFor().Err() != nil || a.flight.speech.begun() {",
			New:    "if !more || a.isSpent() || a.waitingFor().Err() != nil {",
			Caught: test("./services/llmgateway", "TestTheEndpointDoesNotGoOnWithAnotherModelInTheMiddleOfAnAnswer"),
		},
	}
}

// simulation is the command that runs the deterministic simulation.
func simulation() []string { return []string{"run", "./e2e/sim/cmd/sim", "-seeds", "10000"} }

// test is the command that runs tests of a package.
func test(pkg, names string) []string {
	return []string{"test", "-count=1", "-timeout=3m", "-run", names, pkg}
}
