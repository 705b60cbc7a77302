package store

// ByHand returns the statements that are not generated, by name.
func ByHand() map[string]string {
	return map[string]string{"FindWaitingTenants": findWaitingTenants, "FindLined": findLined}
}
