// Package machine is the state machine of runs and steps: pure, without I/O, clock or randomness.
//
// A caller loads a run's head and the rows that an event concerns (Wants names them), calls Apply, writes the
// differences (Rows.Changes) and carries out the effects. What may happen in which state stands in two literal tables,
// RunTable and StepTable (table.go); Apply is driven by them, and docs/reference/states.md is printed from them.
//
// The machine works on the head of the run, the rows concerned and counters, never on all shards of a fan-out. It knows
// nothing of payloads: items, inputs and outputs are the caller's, keyed by step and shard. An event that is refused
// changes nothing; an event that is applied a second time changes nothing either. Values are not safe for concurrent use.
package machine
