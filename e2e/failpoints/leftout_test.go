package failpoints

// leftOut says of each point that the runs of the sweep do not come to what is shown in its place, and by which test.
func leftOut() map[string]string {
	const nothing = "nothing yet"
	const scenario = "a gateway is killed some time later, while its batches are with the provider: `TestBatchesGoThroughTheProvidersBatchAPI`"
	return map[string]string{
		"gateway.scope.taken":        "a gateway is killed some time later, with the request in flight: `TestI02_TheEndpointDoesNotBuyAgainAfterADeath`",
		"intake.schedule.started":    "the note is taken back, and another replica comes to the same run: `TestAScheduleWhoseStarterDiedStartsNoSecondRun`",
		"orchestrator.batch.created": "a submit that is repeated: `TestI05_ABatchThatIsSubmittedAgainMakesWhatIsMissing`",
		"orchestrator.batch.sealed":  "a submit that is repeated: `TestI05_ABatchThatIsSubmittedAgainMakesWhatIsMissing`",
		"orchestrator.batch.decided": "an operation that a replica has left: `TestAnOperationGoesOnWithAnotherReplica`",
		"orchestrator.batch.worked":  "an operation that a replica has left: `TestAnOperationGoesOnWithAnotherReplica`",
		"gateway.economy.entered":    nothing,
		"gateway.economy.prepared":   nothing,
		"gateway.economy.made":       "a gateway is killed, and what it noted taken back: `TestABatchWhoseMakerDiedIsNotMadeTwice`",
		"gateway.economy.noted":      scenario,
		"gateway.economy.settled":    nothing,
	}
}
