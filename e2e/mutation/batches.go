package mutation

func batchGuards() []Mutation {
	return []Mutation{
		{
			Name: "batch names", Guard: "two items of a batch do not have one name", File: "services/intake/batch_items.go",
			Old:    "if !names.take('n', name) {",
			New:    "if !names.take('n', name) && name == \"\" {",
			Caught: test("./services/intake", "TestI18_BadBatches"),
		},
	}
}
