package orchestrator_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
)

func (r *replica) steps(run uuid.UUID) []*pawlv1.RunStep {
	r.t.Helper()
	answer, err := r.client.ListRunSteps(r.t.Context(), &systemv1.ListRunStepsRequest{Tenant: tenant, RunId: run.String()})
	require.NoError(r.t, err)
	return answer.GetSteps()
}

// outline returns "name status" of each step, and of a shard "name[index] status".
func outline(steps []*pawlv1.RunStep) []string {
	lines := make([]string, len(steps))
	for i, s := range steps {
		name := s.GetName()
		if s.Shard != nil {
			name += "[" + strconv.Itoa(int(s.GetShard())) + "]"
		}
		lines[i] = name + " " + strings.ToLower(strings.TrimPrefix(s.GetStatus().String(), "STEP_STATUS_"))
	}
	return lines
}

func TestRunIsShownAsItGoes(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(strings.ReplaceAll(fan, "name: parts, ", "name: parts, retry: {initial: 60s, jitter: 0}, "))
	n := r.newRunner()
	creation := r.creation("fan", `{"parts": [1, 2, 3]}`)
	creation.EntityId, creation.Labels, creation.BudgetPicoUsd = "contract-7", map[string]string{"team": "legal"}, pico(2_500_000_000_000)
	creation.DocumentId, creation.Deadline = r.ids.V7().String(), durationpb.New(10*time.Minute)
	created, err := r.client.CreateRun(t.Context(), creation)
	require.NoError(t, err)
	run := uuid.MustParse(created.GetRunId())

	shown := r.run(run)
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_QUEUED, shown.GetStatus())
	require.Equal(t, "fan:v1", shown.GetPipeline())
	require.Equal(t, "contract-7", shown.GetEntityId())
	require.Equal(t, map[string]string{"team": "legal"}, shown.GetLabels())
	require.Equal(t, "2.5", shown.GetBudgetUsd())
	require.Equal(t, creation.GetDocumentId(), shown.GetDocumentId())
	require.Equal(t, "parts", shown.GetCurrentStep())
	require.Equal(t, []int32{0, 2}, []int32{shown.GetStepsDone(), shown.GetStepsTotal()})
	require.Equal(t, "0", shown.GetCostSoFarUsd())
	require.Nil(t, shown.GetStartedAt())
	require.Equal(t, 10*time.Minute, shown.GetDeadlineAt().AsTime().Sub(shown.GetCreatedAt().AsTime()))
	require.Equal(t, "dispatch", shown.GetBlockage().GetCode())
	w := n.take() // it has been dispatched, by its own group or by the dispatcher
	require.Equal(t, []string{"parts running", "whole pending"}, outline(r.steps(run)))
	expanded := w.outcome()
	expanded.Result = &systemv1.Outcome_Expanded_{Expanded: &systemv1.Outcome_Expanded{Items: [][]byte{[]byte(`1`), []byte(`2`), []byte(`3`)}}}
	n.stored(expanded)
	first, second := n.take(), n.take()
	if first.Hold.GetStep().GetShard() > second.Hold.GetStep().GetShard() {
		first, second = second, first
	}
	require.Nil(t, r.run(run).GetBlockage(), "its shards are running")
	n.stored(first.succeeded(`"one"`))
	failed := second.failed(systemv1.Outcome_FAILURE_CLASS_TRANSIENT, "provider_503")
	n.stored(failed)
	third := n.take()
	before := shown.GetEtag()
	shown = r.run(run)
	require.Equal(t, pawlv1.RunStatus_RUN_STATUS_RUNNING, shown.GetStatus())
	require.EqualValues(t, 1, shown.GetShards().GetDone())
	require.EqualValues(t, 3, shown.GetShards().GetTotal())
	require.NotEqual(t, before, shown.GetEtag())
	require.Nil(t, shown.GetResult())
	n.stored(third.succeeded(`"three"`))

	shown = r.run(run)
	blockage := shown.GetBlockage()
	require.Equal(t, "retry_wait", blockage.GetCode())
	require.Equal(t, "parts", blockage.GetStep())
	require.Contains(t, blockage.GetSentence(), "parts[1]")
	require.NotEmpty(t, blockage.GetSuggestedAction())
	require.WithinDuration(t, time.Now().Add(time.Minute), blockage.GetAutoResolvesAt().AsTime(), 5*time.Second)
	steps := r.steps(run)
	require.Equal(t, []string{"parts expanded", "parts[0] done", "parts[1] backoff", "parts[2] done", "whole pending"}, outline(steps))
	require.JSONEq(t, `"one"`, steps[1].GetOutput().GetJson())
	require.Equal(t, "provider_503", steps[2].GetReason())
	require.Equal(t, "in words", steps[2].GetError())
	require.Equal(t, blockage.GetAutoResolvesAt().AsTime(), steps[2].GetNextAt().AsTime())
	require.Equal(t, n.id.String(), steps[2].GetWorker())
	require.EqualValues(t, 1, steps[2].GetAttempt())
	require.Nil(t, steps[1].GetNextAt())
}

func TestStepsOfACancelledRunAreShown(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	n := r.newRunner()
	run := r.create("chain", `{"text": 1}`)
	n.stored(n.take().succeeded(`"a"`))
	r.cancel(run)
	require.Equal(t, []string{"first done", "second cancelled", "third cancelled"}, outline(r.steps(run)))
	shown := r.run(run)
	require.Equal(t, "cancelled", shown.GetReason())
	require.Nil(t, shown.CurrentStep)
	require.Nil(t, shown.GetBlockage())
	require.NotNil(t, shown.GetFinishedAt())
	require.Equal(t, "none", shown.GetUndo())
}

func (r *replica) list(query *pawlv1.ListRunsRequest) (ids []string, next string) {
	r.t.Helper()
	answer, err := r.client.ListRuns(r.t.Context(), &systemv1.ListRunsRequest{Tenant: tenant, Query: query})
	require.NoError(r.t, err)
	for _, run := range answer.GetRuns() {
		ids = append(ids, run.GetRunId())
	}
	return ids, answer.GetNextPageToken()
}

func TestRunsAreListedByFiltersAndPages(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	r.register(strings.Replace(chain, "version: v1", "version: v2", 1))
	r.register(fan)
	r.registerFor("other", chain)
	foreign := r.creation("chain", `{}`)
	foreign.Tenant = "other"
	_, err := r.client.CreateRun(t.Context(), foreign)
	require.NoError(t, err)

	create := func(pipeline, entity string, class pawlv1.RunClass) string {
		creation := r.creation(pipeline, `{"parts": []}`)
		creation.EntityId, creation.Class = entity, class
		created, err := r.client.CreateRun(t.Context(), creation)
		require.NoError(t, err)
		return created.GetRunId()
	}
	const interactive, batch = pawlv1.RunClass_RUN_CLASS_INTERACTIVE, pawlv1.RunClass_RUN_CLASS_BATCH
	one := create("chain:v1", "a", interactive)
	two := create("chain", "a", batch)
	three := create("fan", "b", interactive)
	four := create("chain", "", batch)
	r.cancel(uuid.MustParse(two))
	r.cancel(uuid.MustParse(three))

	for name, c := range map[string]struct {
		query *pawlv1.ListRunsRequest
		want  []string
	}{
		"all, the newest first":     {&pawlv1.ListRunsRequest{}, []string{four, three, two, one}},
		"a pipeline":                {&pawlv1.ListRunsRequest{Pipeline: "chain"}, []string{four, two, one}},
		"a version":                 {&pawlv1.ListRunsRequest{Pipeline: "chain:v2"}, []string{four, two}},
		"a state":                   {&pawlv1.ListRunsRequest{Status: pawlv1.RunStatus_RUN_STATUS_CANCELLED}, []string{three, two}},
		"a state without runs":      {&pawlv1.ListRunsRequest{Status: pawlv1.RunStatus_RUN_STATUS_NEEDS_REVIEW}, nil},
		"a class":                   {&pawlv1.ListRunsRequest{Class: batch}, []string{four, two}},
		"a reason":                  {&pawlv1.ListRunsRequest{Reason: "cancelled"}, []string{three, two}},
		"an entity":                 {&pawlv1.ListRunsRequest{EntityId: "a"}, []string{two, one}},
		"an entity in a state":      {&pawlv1.ListRunsRequest{EntityId: "a", Status: pawlv1.RunStatus_RUN_STATUS_QUEUED}, []string{one}},
		"a state and a pipeline":    {&pawlv1.ListRunsRequest{Status: pawlv1.RunStatus_RUN_STATUS_CANCELLED, Pipeline: "fan"}, []string{three}},
		"nothing fits":              {&pawlv1.ListRunsRequest{EntityId: "a", Pipeline: "fan"}, nil},
		"an entity that is unknown": {&pawlv1.ListRunsRequest{EntityId: "z"}, nil},
	} {
		for _, size := range []int32{0, 1, 2, 4} {
			var got []string
			for query, more := c.query, true; more; {
				query.PageSize = size
				page, next := r.list(query)
				if size > 0 {
					require.LessOrEqual(t, len(page), int(size), name)
				}
				got = append(got, page...)
				query.PageToken, more = next, next != ""
				require.True(t, !more || len(page) > 0, "%s: no page is empty but the only one", name)
			}
			require.Equal(t, c.want, got, "%s, pages of %d", name, size)
			c.query.PageToken = ""
		}
	}
	_, err = r.client.ListRuns(t.Context(), &systemv1.ListRunsRequest{Tenant: tenant, Query: &pawlv1.ListRunsRequest{PageToken: "x"}})
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID), err)
}

func TestJournalIsListedInPages(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	n := r.newRunner()
	run := r.create("chain", `{"text": 1}`)
	for range 3 {
		o := n.take().succeeded(`1`)
		o.Usage = &systemv1.Usage{InputTokens: 12, OutputTokens: 3, CostPicoUsd: 420_000_000}
		n.stored(o)
	}
	var kinds []string
	var events []*pawlv1.RunEvent
	query := &pawlv1.ListRunEventsRequest{RunId: run.String(), PageSize: 2}
	for more := true; more; {
		page, err := r.client.ListRunEvents(t.Context(), &systemv1.ListRunEventsRequest{Tenant: tenant, Query: query})
		require.NoError(t, err)
		require.NotEmpty(t, page.GetEvents())
		events = append(events, page.GetEvents()...)
		query.PageToken, more = page.GetNextPageToken(), page.GetNextPageToken() != ""
	}
	for i, e := range events {
		require.EqualValues(t, i+1, e.GetSeq())
		kinds = append(kinds, e.GetKind())
	}
	require.Equal(t, []string{"created", "succeeded", "succeeded", "succeeded", "step_finished"}, kinds)
	require.Equal(t, "first", events[1].GetStep())
	require.Nil(t, events[1].Shard)
	require.Equal(t, "worker:"+n.id.String(), events[1].GetActor())
	require.EqualValues(t, 1, events[1].GetAttempt())
	var detail struct {
		InputTokens int         `json:"input_tokens"`
		Cost        json.Number `json:"cost_usd"`
	}
	require.NoError(t, json.Unmarshal([]byte(events[1].GetDetail().GetJson()), &detail))
	require.Equal(t, 12, detail.InputTokens)
	require.Equal(t, json.Number("0.00042"), detail.Cost)
	_, err := r.client.ListRunEvents(t.Context(), &systemv1.ListRunEventsRequest{
		Tenant: tenant, Query: &pawlv1.ListRunEventsRequest{RunId: run.String(), PageToken: "x"},
	})
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID), err)
}

// Another tenant's run does not exist, by any id.
func TestI17_ForeignRunsAreNotFound(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.register(chain)
	own := r.create("chain", `{"text": 1}`).String()
	ctx := t.Context()
	for name, call := range map[string]func(tenant, run string) error{
		"GetRun": func(tenant, run string) error {
			_, err := r.client.GetRun(ctx, &systemv1.GetRunRequest{Tenant: tenant, RunId: run})
			return err
		},
		"ListRunSteps": func(tenant, run string) error {
			_, err := r.client.ListRunSteps(ctx, &systemv1.ListRunStepsRequest{Tenant: tenant, RunId: run})
			return err
		},
		"ListRunEvents": func(tenant, run string) error {
			_, err := r.client.ListRunEvents(ctx, &systemv1.ListRunEventsRequest{Tenant: tenant, Query: &pawlv1.ListRunEventsRequest{RunId: run}})
			return err
		},
		"CancelRun": func(tenant, run string) error {
			_, err := r.client.CancelRun(ctx, &systemv1.CancelRunRequest{Tenant: tenant, RunId: run, Actor: "person:eve"})
			return err
		},
	} {
		require.NoError(t, call(tenant, own), name)
		for _, err := range []error{call("other", own), call(tenant, r.ids.V7().String())} {
			require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_RUN_NOT_FOUND), "%s: %v", name, err)
		}
	}
	ids, _ := r.list(&pawlv1.ListRunsRequest{})
	require.True(t, slices.Contains(ids, own))
	answer, err := r.client.ListRuns(ctx, &systemv1.ListRunsRequest{Tenant: "other", Query: &pawlv1.ListRunsRequest{}})
	require.NoError(t, err)
	require.Empty(t, answer.GetRuns())
}
