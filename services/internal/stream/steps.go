package stream

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// What all services must agree on: the keys of the streams, behind the prefix of all keys, the group that executes steps, and
// the form of entries. They carry ids only.
const (
	runnersGroup = "runners"
	eventsKey    = ":{events}"

	// RunField names the run in an entry of the events stream, which wakes those who wait for news of it, and StatusField
	// its new state.
	RunField    = "run"
	StatusField = "status"
)

// Steps returns the stream of the dispatched steps of a class, `interactive` or `batch`.
func Steps(client redis.UniversalClient, prefix, class string) *Stream {
	return New(client, prefix+":{steps}:"+class, runnersGroup)
}

// EventsKey is the key of the events stream.
func EventsKey(prefix string) string { return prefix + eventsKey }

// Step is what an entry of a stream of steps names.
type Step struct {
	Run        uuid.UUID
	Step       string
	Shard      int32
	Generation int32
}

// Fields is the step as an entry.
func (s Step) Fields() Fields {
	return Fields{
		"run": s.Run.String(), "step": s.Step,
		"shard": strconv.Itoa(int(s.Shard)), "generation": strconv.Itoa(int(s.Generation)),
	}
}

// ParseStep reads an entry. The error says which field is no part of one.
func ParseStep(fields Fields) (Step, error) {
	run, err := uuid.Parse(fields["run"])
	if err != nil {
		return Step{}, fmt.Errorf("run: %w", err)
	}
	shard, err := strconv.ParseInt(fields["shard"], 10, 32)
	if err != nil {
		return Step{}, fmt.Errorf("shard: %w", err)
	}
	generation, err := strconv.ParseInt(fields["generation"], 10, 32)
	if err != nil {
		return Step{}, fmt.Errorf("generation: %w", err)
	}
	if fields["step"] == "" {
		return Step{}, errors.New("step: is missing")
	}
	return Step{Run: run, Step: fields["step"], Shard: int32(shard), Generation: int32(generation)}, nil
}
