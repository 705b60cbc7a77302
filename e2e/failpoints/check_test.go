package failpoints

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// count is what came of a crash.
type count struct {
	runs, ended int
	// requests is how many requests the provider got for the question that it got most for; those that it was told to refuse
	// do not count. Repeated is how many questions it got more than once.
	requests, repeated int
	// doubts is how many requests are of unknown fate, each booked at its worst case.
	doubts int
	// attempts are those beyond the first of each step; again are steps that were executed after they had finished.
	attempts, again int
}

// settle waits until the runs have ended as they must and nothing is left of them anywhere, and counts.
func (r *rig) settle(before simulated.Report, runs []string, status string) (c count) {
	r.t.Helper()
	r.AwaitNone("runs are not "+status, `SELECT count(*) FROM core.pipeline_run WHERE id = ANY($1) AND status <> $2`, runs, status)
	c.runs, c.ended = len(runs), r.Count(`SELECT count(*) FROM core.pipeline_run WHERE id = ANY($1) AND status = $2`, runs, status)
	require.Equal(r.t, c.runs, r.Count(`SELECT count(*) FROM core.pipeline_run WHERE id >= (SELECT id FROM unnest($1::uuid[]) AS id ORDER BY id LIMIT 1)`, runs),
		"a submit made a second run")
	r.AwaitQuiet(runs)
	r.provider.AwaitInFlight(0)
	r.settleSlots()
	r.settlePermits()
	r.Doctor()
	c.requests, c.repeated = r.requests(before)
	c.doubts = r.Count(`SELECT count(*) FROM llm.llm_try WHERE run_id = ANY($1) AND state = 'ambiguous'`, runs)
	require.Equal(r.t, c.doubts, r.Count(`SELECT count(*) FROM llm.llm_try
		WHERE run_id = ANY($1) AND state = 'ambiguous' AND cost_basis = 'worst_case' AND cost > 0`, runs), "doubts are booked at their worst case")
	c.attempts = r.Count(`SELECT coalesce(sum(greatest(attempt, 1) - 1), 0) FROM core.pipeline_step_result WHERE run_id = ANY($1)`, runs)
	c.again = r.ExecutedTwice(runs)
	return c
}

// settleSlots waits until no entry of a stream is pending, and no slot of a step-runner is taken.
func (r *rig) settleSlots() {
	r.t.Helper()
	harness.Eventually(r.t, func() error {
		for _, key := range r.Streams() {
			groups, err := r.Redis.Client.XInfoGroups(r.t.Context(), key).Result()
			if err == nil && len(groups) > 0 && groups[0].Pending > 0 {
				err = fmt.Errorf("%s: %d entries are not acknowledged", key, groups[0].Pending)
			}
			if err != nil {
				return err
			}
		}
		metrics, err := harness.Exchange(r.t.Context(), http.MethodGet, r.Record().Services[serve.StepRunner].Admin+"/metrics", nil, nil)
		if taken := regexp.MustCompile(`(?m)^pawl_step_runner_running_steps\{.*\} [1-9].*$`).Find(metrics.Body); err == nil && taken != nil {
			err = fmt.Errorf("slots are taken: %s", taken)
		}
		return err
	})
}

// settlePermits waits until nobody holds a permit that has not expired.
func (r *rig) settlePermits() {
	r.t.Helper()
	harness.Eventually(r.t, func() error {
		held, err := r.Redis.Client.HGetAll(r.t.Context(), r.Redis.Prefix+":permits:{account}").Result()
		if err != nil {
			return err
		}
		now, err := r.Redis.Client.Time(r.t.Context()).Result()
		if err != nil {
			return err
		}
		for replica, value := range held {
			if !strings.HasPrefix(replica, "r:") { // what all share
				continue
			}
			var of struct {
				Held    [2]int  `json:"k"`
				Expires float64 `json:"e"`
			}
			if err := json.Unmarshal([]byte(value), &of); err != nil {
				return err
			}
			if of.Held != [2]int{} && of.Expires > float64(now.UnixMilli()) {
				return fmt.Errorf("%s holds %v permits", replica, of.Held)
			}
		}
		return nil
	})
}

// requests counts what the provider got since the report.
func (r *rig) requests(before simulated.Report) (most, repeated int) {
	r.t.Helper()
	got := map[string]int{}
	for _, request := range r.provider.Since(before) {
		if request.Outcome == "fault:500" { // it was refused, as it was told, and cost nothing
			continue
		}
		got[request.CallKey]++
	}
	for _, n := range got {
		most = max(most, n)
		if n > 1 {
			repeated++
		}
	}
	return most, repeated
}
