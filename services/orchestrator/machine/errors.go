package machine

import "fmt"

// StaleError refuses an event of a claim or generation that is over. Nothing was changed.
type StaleError struct {
	Event Kind
	Why   string
}

// Error says which event came too late, and why.
func (e *StaleError) Error() string { return fmt.Sprintf("%s is stale: %s", e.Event, e.Why) }

// IllegalError refuses an event that the state does not allow. Nothing was changed.
type IllegalError struct {
	Event Kind
	// State is the run's or the step's state.
	State string
	// Why says what would be right, if there is more to say than the state does.
	Why string
}

// Error names the event and the state that does not allow it.
func (e *IllegalError) Error() string {
	if e.Why == "" {
		return fmt.Sprintf("%s is not possible in state %s", e.Event, e.State)
	}
	return fmt.Sprintf("%s is not possible in state %s: %s", e.Event, e.State, e.Why)
}

// MissingError says that the caller has not loaded what Wants asked for. Nothing was changed.
type MissingError struct {
	Event Kind
	Step  string
	What  string
}

// Error names what the event needs.
func (e *MissingError) Error() string {
	return fmt.Sprintf("%s: %s of step %s are not loaded", e.Event, e.What, e.Step)
}
