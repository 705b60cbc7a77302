package machine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/golden"
	"pawl.internal/services/orchestrator/machine"
)

// TestStatesPage prints the tables as a page of the documentation.
func TestStatesPage(t *testing.T) {
	t.Parallel()
	golden.Assert(t, "../../../docs/reference/states.md", []byte(statesPage()))
}

func statesPage() string {
	var page strings.Builder
	page.WriteString(`# States of runs and steps

Made from the tables of services/orchestrator/machine/table.go by its tests (` + "`-update`" + `); not to be edited.
An event is taken in each of the states on its left and leads to one of those on its right; where nothing stands on the
right, the state stays. The diagrams leave out ` + "`rerun_from`" + `, which the tables below them show.

## Run

`)
	var runs, steps []transition
	for _, row := range machine.RunTable() {
		runs = append(runs, transition{row.On, names(row.From), names(row.To), row.Note})
	}
	for _, row := range machine.StepTable() {
		steps = append(steps, transition{row.On, names(row.From), names(row.To), row.Note})
	}
	diagram(&page, runs, "queued", []string{"done", "failed", "cancelled"})
	table(&page, runs)
	page.WriteString("\n## Step and shard\n\nOutcomes are drawn from running only; they are also taken from a claim that was lost by mistake.\n\n")
	diagram(&page, grouped(steps), "pending", []string{"done", "skipped", "failed", "cancelled", "compensated"})
	table(&page, steps)
	page.WriteString("\n## Reason codes\n\n| code | meaning |\n| --- | --- |\n")
	for _, reason := range machine.AllReasons() {
		fmt.Fprintf(&page, "| `%s` | %s |\n", reason, reason.Sentence())
	}
	return page.String()
}

// transition is a row of either table.
type transition struct {
	on       machine.Kind
	from, to []string
	note     string
}

func names[S ~string](states []S) []string {
	words := make([]string, len(states))
	for i, s := range states {
		words[i] = string(s)
	}
	return words
}

// grouped draws one arrow where many states would have the same.
func grouped(rows []transition) []transition {
	drawn := slices.Clone(rows)
	for i := range drawn {
		switch strings.Join(drawn[i].from, " ") {
		case "running ready queued":
			drawn[i].from = []string{"running"}
		case "pending ready queued running backoff expanded waiting needs_review":
			drawn[i].from = []string{"any_unfinished"}
		case "ready queued backoff waiting":
			drawn[i].from = []string{"effect_in_doubt"}
		}
	}
	return drawn
}

// diagram draws the transitions that change the state, one arrow for all events between two states.
func diagram(page *strings.Builder, rows []transition, first string, last []string) {
	page.WriteString("```mermaid\nstateDiagram-v2\n    [*] --> " + first + "\n")
	var order []string
	events := map[string][]string{}
	for _, row := range rows {
		for _, arrow := range arrows(row) {
			if _, known := events[arrow]; !known {
				order = append(order, arrow)
			}
			if !slices.Contains(events[arrow], string(row.on)) {
				events[arrow] = append(events[arrow], string(row.on))
			}
		}
	}
	for _, arrow := range order {
		fmt.Fprintf(page, "    %s: %s\n", arrow, strings.Join(events[arrow], ", "))
	}
	for _, s := range last {
		fmt.Fprintf(page, "    %s --> [*]\n", s)
	}
	page.WriteString("```\n\n")
}

func arrows(row transition) []string {
	var lines []string
	for _, from := range row.from {
		for _, to := range row.to {
			if from != to && row.on != machine.KindRerunFrom {
				lines = append(lines, from+" --> "+to)
			}
		}
	}
	return lines
}

func table(page *strings.Builder, rows []transition) {
	page.WriteString("| event | from | to | |\n| --- | --- | --- | --- |\n")
	for _, row := range rows {
		fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", row.on, strings.Join(row.from, ", "), strings.Join(row.to, ", "), row.note)
	}
}

// TestTheTablesAreWhole: every state and every kind of event stands in the tables.
func TestTheTablesAreWhole(t *testing.T) {
	t.Parallel()
	kinds, steps, runs := map[machine.Kind]bool{}, map[machine.StepStatus]bool{}, map[machine.RunStatus]bool{}
	for _, row := range machine.StepTable() {
		kinds[row.On] = true
		require.NotEmpty(t, row.Note)
		for _, s := range slices.Concat(row.From, row.To) {
			steps[s] = true
		}
	}
	for _, row := range machine.RunTable() {
		kinds[row.On] = true
		require.NotEmpty(t, row.Note)
		for _, s := range slices.Concat(row.From, row.To) {
			runs[s] = true
		}
	}
	require.Len(t, kinds, len(machine.AllKinds()))
	for _, k := range machine.AllKinds() {
		require.True(t, kinds[k], k)
	}
	require.Len(t, steps, len(machine.AllStepStatuses()))
	for _, s := range machine.AllStepStatuses() {
		require.True(t, steps[s], s)
		require.Contains(t, machine.AllPhases(), s.Phase())
	}
	require.Len(t, runs, len(machine.AllRunStatuses()))
	for _, s := range machine.AllRunStatuses() {
		require.True(t, runs[s], s)
	}
	submitted := oneOfEachKind(machine.Ref{})
	consequences := 6
	require.Len(t, machine.AllKinds(), len(submitted)+consequences)
}

func TestStoredFormOfAState(t *testing.T) {
	t.Parallel()
	state := machine.State{
		Heads: []machine.Head{
			{Phase: machine.PhaseDone, Generation: 2, EndedSeq: 3},
			{Phase: machine.PhaseExpanded, Generation: 1, Reason: machine.ReasonNetwork, Shards: machine.Shards{
				Total: 9, Done: 1, Skipped: 1, Failed: 1, Active: 1, Waiting: 1, Review: 1, Next: 6,
			}},
			{Phase: machine.PhaseFailed, Generation: 1, EndedSeq: 5, Tolerated: true},
			{Phase: machine.PhasePending, Generation: 1},
		},
		Ending: &machine.Ending{Status: machine.RunFailed, Reason: machine.ReasonAuth, Detail: "no", Step: 2, Undo: true},
		Held:   true,
	}
	text, err := json.Marshal(state)
	require.NoError(t, err)
	require.JSONEq(t, `{"steps":[
		{"p":"done","gen":2,"seq":3},
		{"p":"expanded","reason":"network","total":9,"done":1,"skipped":1,"failed":1,"active":1,"waiting":1,"review":1,"next":6},
		{"p":"failed","seq":5,"tolerated":true},
		{}],"ending":{"status":"failed","reason":"auth","detail":"no","step":2,"undo":true},"held":true}`, string(text))
	var back machine.State
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, state, back)
	require.ErrorContains(t, back.UnmarshalJSON([]byte(`{"steps":1}`)), "run state")
}

func TestEveryReasonIsExplained(t *testing.T) {
	t.Parallel()
	seen := map[machine.Reason]bool{}
	for _, reason := range machine.AllReasons() {
		require.Regexp(t, `^[a-z0-9_]+$`, string(reason))
		require.Regexp(t, `^[A-Z].*\.$`, reason.Sentence())
		require.False(t, seen[reason], "%s stands twice", reason)
		require.True(t, reason.Known())
		seen[reason] = true
	}
	require.False(t, machine.Reason("moon_phase").Known())
}

func TestErrorsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"released is stale: the step is done":               &machine.StaleError{Event: machine.KindReleased, Why: "the step is done"},
		"woken is not possible in state running":            &machine.IllegalError{Event: machine.KindWoken, State: "running"},
		"woken is not possible in state waiting: not yet":   &machine.IllegalError{Event: machine.KindWoken, State: "waiting", Why: "not yet"},
		"skipped: the next shards of step a are not loaded": &machine.MissingError{Event: machine.KindSkipped, Step: "a", What: "the next shards"},
	} {
		require.EqualError(t, err, want)
	}
}

func TestWhatIsNotLoadedIsNoticed(t *testing.T) {
	t.Parallel()
	w := expanded(t, fanOut(1, machine.FailRun), 3)
	held := w.start(0, 0)
	run := w.run
	rows := machine.NewRows([]machine.Live{w.live[held.Key], w.live[machine.Key{Step: 0, Shard: whole}]}, nil)
	_, err := machine.Apply(w.plan, &run, rows, machine.Succeeded{Attempt: held}, w.now, w.random)
	var missing *machine.MissingError
	require.ErrorAs(t, err, &missing, "without the next shard the fan-out would stand still")
	require.Equal(t, w.run, run)
	require.Equal(t, machine.Changes{}, rows.Changes())
}
