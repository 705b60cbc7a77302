package failure

import (
	"log/slog"
	"time"
)

// Failure is one request's failure. The zero value is none.
type Failure struct {
	Class Class
	// Reason is the stable code; empty for None.
	Reason string
	// Code is the provider's own code or type, such as "slow_down", if it is a plain word; it may stand in logs.
	Code string
	// Message is for people: what the provider said, cut short. It may repeat what was sent, so it belongs into the call log
	// and to the run's owner, and never into logs or metrics; see LogValue.
	Message string
	// Wait is the least wait that the provider stated, or that follows from its rules; 0 for none. It is never cut short.
	Wait time.Duration
	// ResumeAt is when that wait is over, to the nanosecond where the provider named a time; zero for none.
	ResumeAt time.Time
	// Scope says what a Quota is used up for.
	Scope Scope
	// MostRetries is how often the same is worth trying again at most; 0 where the step's own bound is enough. An Unsure
	// failure has its bound in the step's on_ambiguous.
	MostRetries int
	// AnswerAtFault is true when an answer came, was paid, and is of no use, so that asking again is a new question.
	AnswerAtFault bool
}

// LogValue gives what may stand in a log: nothing that the provider wrote freely.
func (f Failure) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("class", f.Class.String()), slog.String("reason", f.Reason), slog.String("code", f.Code),
		slog.Duration("wait", f.Wait),
	)
}

// Scope is what a failure holds for.
type Scope uint8

// The scopes, the widest first.
const (
	// ScopeAccount: everything that is charged to the account.
	ScopeAccount Scope = iota
	// ScopeProject: the keys of one project or workspace of the account.
	ScopeProject
	// ScopeKey: the one key.
	ScopeKey
	// ScopeModel: the one model; the account's others may serve.
	ScopeModel
)

// String returns the scope's word.
func (s Scope) String() string {
	switch s {
	case ScopeAccount:
		return "account"
	case ScopeProject:
		return "project"
	case ScopeKey:
		return "key"
	case ScopeModel:
		return "model"
	}
	return "unknown"
}
