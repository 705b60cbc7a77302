package permit

import (
	"fmt"
	"time"
)

// Class is the lane of a call. Lower classes go first.
type Class int

// The classes.
const (
	Interactive Class = iota
	Batch
	classes = iota
)

// Dimension is what a provider counts per minute.
type Dimension int

// The dimensions. Tokens are those of input and output together.
const (
	Requests Dimension = iota
	Tokens
	InputTokens
	OutputTokens
	dimensions = iota
)

// amounts holds one number for each Dimension.
type amounts [dimensions]float64

func (a amounts) plus(b amounts) amounts {
	for d := range a {
		a[d] += b[d]
	}
	return a
}

func (a amounts) minus(b amounts) amounts {
	for d := range a {
		a[d] -= b[d]
	}
	return a
}

func (a amounts) times(x float64) amounts {
	for d := range a {
		a[d] *= x
	}
	return a
}

// Limit is what a limit group allows. A limit of 0 is none.
type Limit struct {
	// Concurrency is how many requests may be in flight.
	Concurrency int
	// These are per minute; Tokens are input and output together.
	Requests, Tokens, InputTokens, OutputTokens int64
	// InteractiveReserve is the share of all these that batch calls never use, from 0 to 1.
	InteractiveReserve float64
	// BatchFloor is the share that batch calls in line get even when interactive calls would take everything: at least one
	// permit, if there are two.
	BatchFloor float64
	// Adaptive lets the limits fall when the provider says that we ask too fast, and grow again.
	Adaptive bool
}

// perMinute returns the limits per minute.
func (l Limit) perMinute() amounts {
	return amounts{float64(l.Requests), float64(l.Tokens), float64(l.InputTokens), float64(l.OutputTokens)}
}

// rated reports whether there is any limit per minute. Without one, a permit that was given back can be used again at once.
func (l Limit) rated() bool { return l.perMinute() != amounts{} }

// Need is what a call asks for.
type Need struct {
	Group  string
	Class  Class
	Tenant string
	// Input is an estimate of the tokens that the model is to read, and Output a bound of those that it may write.
	Input, Output int64
	// Deadline is the time from which on a permit is of no use; zero for none.
	Deadline time.Time
}

// draws is what a call takes from the buckets.
func draws(input, output int64) amounts {
	return amounts{1, float64(input + output), float64(input), float64(output)}
}

// Used is what a request has really used. It is not Known when nobody can say.
type Used struct {
	Input, Output int64
	Known         bool
}

// Room is what a provider's answer says of one limit.
type Room struct {
	Of Dimension
	// Limit is the limit per minute; 0 or less when it was not told.
	Limit int64
	// Remaining is what is left of it; negative when it was not told.
	Remaining int64
	// Reset is the time until all of it is there again.
	Reset time.Duration
}

// Feedback is what an answer says about the limits of its group.
type Feedback struct {
	// Limited is true when the provider answered that we ask too fast, and SlowDown when it said that our requests grew too
	// fast. An answer without either counts as one that was let through.
	Limited, SlowDown bool
	// Wait is the wait that the provider stated; the whole group pauses so long.
	Wait time.Duration
	// Sent is when the request was sent, on the clock of this replica.
	Sent time.Time
	// Rooms is what the provider's headers say is left.
	Rooms []Room
}

// Refusal is an error: waiting for a permit would be in vain, or longer than a caller should wait here.
type Refusal struct {
	Group string
	// Wait is when it makes sense to come again.
	Wait time.Duration
	// Deadline is true when the call's deadline cannot be met, and false when the group pauses for long.
	Deadline bool
	// Why is for people.
	Why string
}

// Error returns the whole story in one line.
func (r *Refusal) Error() string {
	return fmt.Sprintf("no permit of limit group %s: %s; come again in %s", r.Group, r.Why, r.Wait.Round(time.Millisecond))
}

// State is how a group stands, for metrics and people.
type State struct {
	// Limit is the configuration, and Factor the part of it that is used as the provider has taught us, from 0 to 1.
	Limit  Limit
	Factor float64
	// Ceiling is how many requests may be in flight now; 0 without a limit.
	Ceiling int
	// PerMinute are the limits per minute as they are now, by Dimension, and Levels what the buckets hold.
	PerMinute, Levels [dimensions]float64
	// InFlight are the permits of all replicas, and Here the calls of this one that have one.
	InFlight, Here int
	// Waiting are the calls in line in this replica, by Class.
	Waiting [classes]int
	// PausedUntil is when the provider wants to be asked again, zero if now; Paused is the time until then.
	PausedUntil time.Time
	Paused      time.Duration
	// Degraded is true while Redis is away.
	Degraded bool
}
