package failpoints

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/stretchr/testify/require"
)

// all reports whether everything is asked for, not only the short set.
func all() bool { return !testing.Short() }

// TestI04_ACrashAtEveryPoint kills a service at each point, while runs go through it. They end as if nothing had happened.
func TestI04_ACrashAtEveryPoint(t *testing.T) {
	r := start(t)
	var counts results
	defer func() { fmt.Printf("what came of each crash:\n%s", counts.table()) }()
	for _, c := range inTurn(chosen()) {
		t.Run(c.name(), func(t *testing.T) { counts.add(c, r.For(t).endure(c)) })
	}
}

// chosen are the crashes that are asked for.
func chosen() []crash {
	return slices.DeleteFunc(crashes(), func(c crash) bool { return !c.ci && !all() })
}

func (c crash) name() string {
	if c.policy == "" {
		return c.rule
	}
	return fmt.Sprintf("%s, on_ambiguous: %s", c.rule, c.policy)
}

// endure kills a process at the point, and fails the test unless all that follows is as it must be.
func (r *rig) endure(c crash) count {
	r.t.Helper()
	before := r.provider.Report()
	r.rule = c.rule
	runs := c.load(r, func() { r.points.Arm(c.rule + "=kill once") })
	r.awaitStarted(r.awaitActed())
	got := r.settle(before, runs, c.status)
	r.points.Arm()
	repeated := 0
	if c.requests > 1 {
		repeated = 1
	}
	require.Equal(r.t, count{
		runs: got.runs, ended: got.runs, attempts: got.attempts, requests: c.requests, repeated: repeated, doubts: c.doubts,
	}, got)
	return got
}

// inTurn sorts the crashes so that a service is not killed again and again: whoever dies soon after its start is started
// anew ever later.
func inTurn(list []crash) (sorted []crash) {
	queues := map[string][]crash{}
	for _, c := range list {
		queues[serviceOf(c.rule)] = append(queues[serviceOf(c.rule)], c)
	}
	last := ""
	for range list {
		next := ""
		for service, queue := range queues {
			better := len(queue) > len(queues[next]) || len(queue) == len(queues[next]) && service < next
			if len(queue) > 0 && service != last && better {
				next = service
			}
		}
		if next == "" {
			next = last
		}
		sorted, queues[next], last = append(sorted, queues[next][0]), queues[next][1:], next
	}
	return sorted
}

// results are what came of the crashes of a sweep.
type results struct {
	lines [][]string
}

func (s *results) add(c crash, n count) {
	line := []string{c.name()}
	for _, number := range []int{n.runs, n.ended, n.attempts, n.again, n.doubts, n.repeated, n.requests} {
		line = append(line, fmt.Sprint(number))
	}
	s.lines = append(s.lines, line)
}

func (s *results) table() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "crash point\truns accepted\tended as they must\tattempts begun again\tsteps executed twice\trequests in doubt\tquestions sent twice\trequests of that question")
	for _, line := range s.lines {
		fmt.Fprintln(w, strings.Join(line, "\t"))
	}
	_ = w.Flush() // a builder takes everything
	return text.String()
}
