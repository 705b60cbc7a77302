package chaos

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/llmgateway/provider/simulated"
)

// sent is what the gateways have written of a call's requests.
type sent struct {
	// rows are requests that may have reached the provider; doubtful ones are or were of unknown fate (an answer may come
	// when the step has been told so already), and failed ones gave no answer.
	rows, doubtful, failed int
}

// payments compares what the provider got with what the gateways have written. Each request must have its row, which was on
// disk before it was sent; and each beyond a question's first one needs one before it that is of unknown fate or failed.
// Equal questions count together, whoever asked them: no two runs of the suite ask the same.
func payments(t *testing.T, f *harness.Fleet, before simulated.Report, runs []string) (doubtful, paidTwice int) {
	t.Helper()
	written := written(t, f, runs)
	for _, s := range written {
		doubtful += s.doubtful
	}
	got, callsOf := map[string]int{}, map[string]map[string]int{}
	for _, r := range f.Provider.Since(before) {
		question := r.Fingerprint
		if question == "" { // it was cut off before it was read
			question = r.CallKey
		}
		got[question]++
		if callsOf[question] == nil {
			callsOf[question] = map[string]int{}
		}
		callsOf[question][r.CallKey]++
	}
	for question, n := range got {
		excuses := 0
		for key, requests := range callsOf[question] {
			require.LessOrEqual(t, requests, written[key].rows, "call %s: the provider got requests that nobody has written down", key)
			excuses += written[key].doubtful + written[key].failed
		}
		paidTwice += max(0, n-1-excuses)
	}
	return doubtful, paidTwice
}

// written reads the log of requests, by the key of the call.
func written(t *testing.T, f *harness.Fleet, runs []string) map[string]sent {
	t.Helper()
	found := map[string]sent{}
	harness.Eventually(t, func() error {
		rows, err := f.API.DB.Query(t.Context(), writtenQuery, runs)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var key string
			var s sent
			if err := rows.Scan(&key, &s.rows, &s.doubtful, &s.failed); err != nil {
				return err
			}
			found[key] = s
		}
		return rows.Err()
	})
	return found
}

// writtenQuery counts, by call, its requests; doubts are those in the log or those that the step's journal tells of, whichever
// are more.
const writtenQuery = `
SELECT encode(c.call_key, 'hex'), tries.sent, greatest(tries.doubtful, journal.doubtful), tries.failed
FROM llm.llm_call_log c, LATERAL (
    SELECT count(*) FILTER (WHERE state <> 'not_sent') AS sent, count(*) FILTER (WHERE state = 'ambiguous') AS doubtful,
           count(*) FILTER (WHERE state = 'failed') AS failed
    FROM llm.llm_try t WHERE t.run_id = c.run_id AND t.call_key = c.call_key) AS tries, LATERAL (
    SELECT count(*) AS doubtful FROM core.run_event e
    WHERE e.run_id = c.run_id AND e.step = c.step AND e.shard = c.shard AND e.kind = 'ambiguous') AS journal
WHERE c.run_id = ANY($1)`
