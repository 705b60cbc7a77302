package mutation

// fairGuards are about who is dispatched, and how much at once.
func fairGuards() []Mutation {
	const allowance, caps = "services/orchestrator/store/allowance.go", "services/orchestrator/store/caps.go"
	return []Mutation{
		{
			Name: "weight", Guard: "tenants share batch capacity by weight", File: "services/orchestrator/turns.go",
			Old:    "t.deficits[w.Tenant] += float64(w.Weight) / float64(least)",
			New:    "t.deficits[w.Tenant] += float64(least) / float64(least)",
			Caught: test("./services/orchestrator", "TestSharesAreAsTheWeights"),
		},
		{
			Name: "begun first", Guard: "runs that have begun go before those that have not", File: "services/orchestrator/store/look.go",
			Old:    "compareTrue(other.Begun, r.Begun), ",
			New:    "",
			Caught: test("./services/orchestrator/store", "TestReadyStepsOfATenantInOrder"),
		},
		{
			Name: "cap", Guard: "no more steps are dispatched than a tenant's or pipeline's cap allows", File: allowance,
			Old:    "if a.most > 0 && a.used >= a.most || d.maxSteps > 0 && a.lines[d.line] >= d.maxSteps {",
			New:    "if false {",
			Caught: test("./services/orchestrator/store", "TestCapsOnSteps"),
		},
		{
			Name: "cap over replicas", Guard: "two transactions never decide about one tenant's caps at once", File: "services/orchestrator/store/db/dispatch.sql.go",
			Old:    "WHERE pg_try_advisory_xact_lock(hashtextextended('core.caps ' || k.tenant, 0))",
			New:    "",
			Caught: test("./services/orchestrator/store", "TestABusyCapKeepsNobodyWaiting"),
		},
		{
			Name: "capped are not passed", Guard: "a step that becomes READY goes past none that waits for the same cap", File: caps,
			Old:    "behind[i] || !g.admit(step.run)",
			New:    "behind[i] && false || !g.admit(step.run)",
			Caught: test("./services/orchestrator/store", "TestCapsOnSteps"),
		},
		{
			Name: "key", Guard: "of the runs of a key only so many are begun and not finished", File: allowance,
			Old:    "case d.holders+len(seated) >= d.maxRuns:",
			New:    "case d.maxRuns < 0:",
			Caught: test("./services/orchestrator/store", "TestConcurrencyKeys"),
		},
	}
}
