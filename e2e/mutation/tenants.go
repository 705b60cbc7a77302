package mutation

// tenantGuards are about who may see and do what, and how much may be submitted.
func tenantGuards() []Mutation {
	const isolation = "TestI17_NoEndpointShowsAnotherTenantsThings"
	return []Mutation{
		{
			Name: "tenant of a run", Guard: "a run is read by its tenant alone", File: "services/orchestrator/store/db/read.sql.go",
			Old:    "FROM core.run_view WHERE id = $1 AND tenant = $2",
			New:    "FROM core.run_view WHERE id = $1 AND $2::text <> ''",
			Caught: test("./services/cmd/pawl", isolation),
		},
		{
			Name: "tenant of a key", Guard: "administrators manage the keys of their own tenant alone", File: "services/intake/tenants.go",
			Old:    "if c.tenant == tenant || c.operates()",
			New:    "if c.tenant != \"\" || c.operates()",
			Caught: test("./services/cmd/pawl", isolation),
		},
		{
			Name: "role of a key", Guard: "a key does no more than its role allows", File: "services/intake/auth.go",
			Old:    "if needed := leastRole(method); !c.role.Allows(needed) {",
			New:    "if needed := leastRole(method); !c.role.Allows(needed) && c.tenant == \"\" {",
			Caught: test("./services/cmd/pawl", isolation),
		},
		{
			Name: "shared rate", Guard: "replicas of intake share one rate of submits a tenant", File: "services/intake/rate/rate.go",
			Old:    "l.deps.Prefix + \":submits:\" + name",
			New:    "l.deps.Prefix + \":submits:\" + l.deps.Replica + name",
			Caught: test("./services/intake/rate", "TestReplicasShareARate"),
		},
		{
			Name: "order of shedding", Guard: "batches are refused before anything interactive is", File: "services/intake/backlog.go",
			Old:    "case l.class == pawlv1.RunClass_RUN_CLASS_BATCH && total+n > most.batch:",
			New:    "case total+n > most.batch:",
			Caught: test("./services/intake", "TestBatchesAreRefusedBeforePeople"),
		},
	}
}
