package mutation

// All lists the mutations: for each guard that a promise rests on, the smallest change that takes it away.
func All() []Mutation {
	var all []Mutation
	for _, part := range [][]Mutation{
		machineGuards(), storeGuards(), loopGuards(), runnerGuards(), gatewayGuards(), callLogGuards(), limitGuards(),
		formatGuards(), targetGuards(), endpointGuards(), laneGuards(), fairGuards(), tenantGuards(), batchGuards(),
	} {
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

// simulation is the command that runs the deterministic simulation.
func simulation() []string { return []string{"run", "./e2e/sim/cmd/sim", "-seeds", "10000"} }

// test is the command that runs tests of a package.
func test(pkg, names string) []string {
	return []string{"test", "-count=1", "-timeout=3m", "-run", names, pkg}
}
