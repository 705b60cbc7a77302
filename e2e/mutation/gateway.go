package mutation

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
	}
}

func callLogGuards() []Mutation {
	return []Mutation{
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
	}
}

func limitGuards() []Mutation {
	return []Mutation{
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
	}
}

func formatGuards() []Mutation {
	return []Mutation{
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

func laneGuards() []Mutation {
	return []Mutation{
		{
			Name: "one way through the lane", Guard: "two replicas put a question into the economy lane once", File: "services/llmgateway/store/change.go",
			Old:    "|| b.Item != nil && c.inFlight())",
			New:    ")",
			Caught: test("./services/llmgateway/store", "TestAQuestionGoesIntoTheLaneOnce"),
		},
		{
			Name: "batch looked for", Guard: "a batch whose making nobody noted is not made twice", File: "services/llmgateway/economy/submit.go",
			Old:    "_, err = l.Store.NoteSent(ctx, job.ID, id, l.cfg.LookEvery)\n\t\treturn err\n\tcase",
			New:    "_ = id\n\t\treturn l.Store.ReturnJob(ctx, job.ID)\n\tcase",
			Caught: test("./services/llmgateway/economy", "TestABatchWhoseMakingWasNotHeardOfIsNotMadeTwice"),
		},
		{
			Name: "batch given up", Guard: "a batch that could not be made is made later by who lives", File: "services/llmgateway/store/db/economy.sql.go",
			Old:    "AND (j.holder = $1\n       OR NOT EXISTS (",
			New:    "AND ($1::uuid IS NULL\n       OR NOT EXISTS (",
			Caught: test("./services/llmgateway/economy", "TestABatchThatCouldNotBeMadeIsMadeLater"),
		},
	}
}
