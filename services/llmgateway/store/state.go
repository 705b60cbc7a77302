package store

// CallState is how far a question is.
type CallState string

// The states of calls. A call that failed or was cancelled may be tried again, an ambiguous one only on purpose.
const (
	CallInFlight  CallState = "in_flight"
	CallAnswered  CallState = "answered"
	CallFailed    CallState = "failed"
	CallAmbiguous CallState = "ambiguous"
	CallCancelled CallState = "cancelled"
)

// TryState is how far one request is.
type TryState string

// The states of requests.
const (
	TryInFlight TryState = "in_flight"
	// TryAnswered: an answer came, good or at fault; it is paid.
	TryAnswered TryState = "answered"
	// TryFailed: it surely brought no answer.
	TryFailed TryState = "failed"
	// TryAmbiguous: it was sent, and nobody knows what came of it.
	TryAmbiguous TryState = "ambiguous"
	// TryCancelled: we aborted it.
	TryCancelled TryState = "cancelled"
	// TryNotSent: it was recorded and then not sent.
	TryNotSent TryState = "not_sent"
)

// Basis says what the cost of a request follows from.
type Basis string

// The bases of costs.
const (
	// Counted: from the tokens that the provider counted, or it is certain that nothing was charged.
	Counted Basis = "counted"
	// Estimated: from the length of the texts, because the provider did not count.
	Estimated Basis = "estimated"
	// WorstCase: it is what was reserved, because nobody knows.
	WorstCase Basis = "worst_case"
	// Unpriced: what was used has no price that is known; booked is what was reserved, if anything was.
	Unpriced Basis = "unpriced"
)

// stateOf derives a call's state from its requests.
func stateOf(winning int32, tries []*try) CallState {
	if winning != 0 {
		return CallAnswered
	}
	last := CallFailed
	for _, t := range tries {
		switch t.state {
		case TryInFlight:
			return CallInFlight
		case TryAmbiguous:
			last = CallAmbiguous
		case TryCancelled:
			last = CallCancelled
		case TryAnswered, TryFailed, TryNotSent:
			last = CallFailed
		}
	}
	return last
}
