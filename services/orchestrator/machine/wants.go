package machine

// Need says which rows of a run Apply must find in memory for an event. Several events of a run in one group share what
// they need.
type Need struct {
	// Keys are live rows wanted by key. For those that have none, the stored results of their current generation are
	// wanted, where there are any.
	Keys []Key
	// Pending are fan-out steps of which the next PENDING shards are wanted, one for each event that names the step: from
	// Shards.Next upward, or for an undo step from there downward.
	Pending []int
	// Review asks for all rows in NEEDS_REVIEW.
	Review bool
	// Begun are steps of which all rows that may have an outside effect under way are wanted: those that are RUNNING, and
	// those that are Unsure.
	Begun []int
	// Results are fan-out steps of which the stored results of all shards in the current generation are wanted.
	Results []int
}

// Wants returns what the event needs. The run is as it was just read.
func Wants(p *Plan, run *Run, ev Event) Need { return Need{} }
