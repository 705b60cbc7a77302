package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// fail is the event that the step has failed for good.
func (b *bench) fail(h held) *store.Event {
	return &store.Event{
		Ref: h.Ref, Report: &store.Report{Worker: uuid.UUID(h.worker)},
		Make: func(r machine.Ref, _ time.Time) machine.Event {
			return machine.FailedPermanent{
				Attempt: machine.Attempt{Claim: h.claim(r)}, Reason: machine.ReasonSchemaMismatch, Detail: "no amount",
			}
		},
	}
}

// give returns what the step is given.
func (b *bench) give(ref store.Ref, inputs store.Inputs) store.Given {
	b.t.Helper()
	given, err := b.store.Give(b.t.Context(), []store.Wanted{{Ref: ref, Inputs: inputs}})
	require.NoError(b.t, err)
	return given[0]
}

func TestShardsGetTheirItemsAndJoinInOrder(t *testing.T) {
	b := setup(t)
	b.register(spec{Name: "fan", Steps: []stepSpec{
		{Name: "a", FanOut: true, Concurrency: 2, OnError: machine.ContinueRun}, {Name: "b", Reads: []string{"a"}},
	}})
	run := b.create("fan")
	large := `"` + strings.Repeat("long ", 40_000) + `"`
	items := []string{`{"n":0}`, large, `null`, `3`}
	b.submit(b.expand(b.grant(b.next(run)), items...))
	require.Equal(t, 2, b.count(`core.step_live WHERE run_id = $1 AND status = 'queued'`, run), "as many as may run at once")

	// In any order: the second shard first.
	first, second := b.grant(b.next(run)), b.grant(b.next(run))
	require.Equal(t, 0, first.Shard)
	require.Equal(t, 1, second.Shard)
	require.Equal(t, items[1], string(b.give(second.Ref, store.Inputs{}).Item), "verbatim, though it is stored compressed")
	b.submit(b.succeed(second, large))
	third := b.grant(b.next(run))
	require.Equal(t, 2, third.Shard)
	b.submit(b.fail(third))
	fourth := b.grant(b.next(run))
	require.Equal(t, items[3], string(b.give(fourth.Ref, store.Inputs{}).Item))
	b.submit(b.succeed(fourth, `{"got":3}`))
	b.submit(b.succeed(first, `{"got":0}`))

	after := b.next(run)
	require.Equal(t, "b", after.Step)
	given := b.give(after, store.Inputs{Run: true, Steps: []string{"a"}})
	require.Equal(t, `[{"got":0},`+large+`,null,{"got":3}]`, string(given.Outputs["a"]))
	require.JSONEq(t, `{"text":"hello"}`, string(given.Input))
	require.Equal(t, 2, b.count(`core.payload WHERE run_id = $1`, run), "an item and an output")
}

func TestFanOutOverNothing(t *testing.T) {
	b := setup(t)
	b.register(spec{Name: "fan", Steps: []stepSpec{{Name: "a", FanOut: true, Concurrency: 2}, {Name: "b"}}})
	run := b.create("fan")
	b.submit(b.expand(b.grant(b.next(run))))
	after := b.next(run)
	require.Equal(t, "b", after.Step)
	require.Equal(t, `[]`, string(b.give(after, store.Inputs{Steps: []string{"a"}}).Outputs["a"]))
}

// A shard that fails ends its siblings, which nobody has loaded, and its run.
func TestFailingShardEndsTheRun(t *testing.T) {
	b := setup(t)
	b.register(spec{Name: "fan", Steps: []stepSpec{{Name: "a", FanOut: true, Concurrency: 3}, {Name: "b"}}})
	run := b.create("fan")
	items := make([]string, 50)
	for i := range items {
		items[i] = fmt.Sprint(i)
	}
	b.submit(b.expand(b.grant(b.next(run)), items...))
	b.submit(b.fail(b.grant(b.next(run))))
	require.Equal(t, "failed", b.status(run))
	require.Zero(t, b.count(`core.step_live WHERE run_id = $1`, run))
	require.Equal(t, 1, b.count(`core.spend_gate_owed WHERE run_id = $1 AND NOT open`, run))
	require.Equal(t, 1, b.count(`core.call_cancel_owed WHERE run_id = $1 AND step = ''`, run))
	var reason, words string
	b.scan(`SELECT reason, error FROM core.pipeline_run WHERE id = $1`, []any{run}, &reason, &words)
	require.Equal(t, "schema_mismatch", reason)
	require.Equal(t, "no amount", words)
}

func TestLargeFanOut(t *testing.T) {
	b := setup(t)
	b.register(spec{Name: "fan", Steps: []stepSpec{{Name: "a", FanOut: true, Concurrency: 100}, {Name: "b"}}})
	run := b.create("fan")
	items := make([]string, machine.MaxShards)
	for i := range items {
		items[i] = fmt.Sprint(i)
	}
	b.submit(b.expand(b.grant(b.next(run)), items...))
	require.Equal(t, machine.MaxShards-100, b.count(`core.step_live WHERE run_id = $1 AND status = 'pending'`, run))
	holds := make([]held, 100)
	for i := range holds {
		holds[i] = held{Ref: b.next(run)}
	}
	b.grantMany(holds)
	events := make([]*store.Event, len(holds))
	for i, h := range holds {
		events[i] = b.succeed(h, `1`)
	}
	for _, err := range b.store.Submit(t.Context(), events...) {
		require.NoError(t, err)
	}
	require.Equal(t, 100, b.count(`core.pipeline_step_result WHERE run_id = $1`, run))
	require.Equal(t, 100, b.count(`core.step_live WHERE run_id = $1 AND status = 'queued'`, run), "each that ends readies the next")
	require.Equal(t, 199, b.scanInt(`SELECT max(shard) FROM core.step_live WHERE run_id = $1 AND status = 'queued'`, run))
}

func (b *bench) scanInt(query string, args ...any) (n int) {
	b.t.Helper()
	b.scan(query, args, &n)
	return n
}

// More than a message holds cannot be handed to a runner: the claim ends the step.
func TestInputsTooLargeEndTheStep(t *testing.T) {
	b := setup(t)
	b.register(spec{Name: "fan", Steps: []stepSpec{
		{Name: "a", FanOut: true, Concurrency: 8}, {Name: "b", ReadsInput: true}, {Name: "c", Reads: []string{"a"}},
	}})
	run, shards := b.fanned("fan", `1`, `2`, `3`, `4`, `5`)
	output := `"` + strings.Repeat("x", store.OutputMax-2) + `"`
	for _, h := range shards {
		b.submit(b.succeed(h, output))
	}
	b.submit(b.succeed(b.grant(b.next(run)), `1`)) // b does not refer to the large outputs
	tooMuch := b.next(run)
	require.Equal(t, "c", tooMuch.Step)
	sizes, err := b.store.Measure(t.Context(), []store.Wanted{{Ref: tooMuch, Inputs: store.Inputs{Steps: []string{"a"}}}})
	require.NoError(t, err)
	require.Equal(t, []int64{5 * store.OutputMax}, sizes)

	e, err := b.claim(tooMuch, b.draw(), b.draw())
	require.NoError(t, err)
	require.Equal(t, machine.Gone, e.Answer)
	require.Equal(t, "failed", b.status(run))
	var reason string
	b.scan(`SELECT reason FROM core.pipeline_run WHERE id = $1`, []any{run}, &reason)
	require.Equal(t, "input_too_large", reason)
}
