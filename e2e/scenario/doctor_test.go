package scenario

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
)

// looksUnderLoad is how often the doctor looks while work is done.
const looksUnderLoad = 20

// The doctor finds nothing in a system that works, however often it looks while that is busy, and whether it is told where
// the stores are or finds them by the data folder.
func TestDoctorFindsNothingUnderLoad(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{})
	all := contracts(t)
	ended := make(chan error, 1)
	looked := make(chan struct{})
	go func() { ended <- keepBusy(s, all, looked) }()
	for range looksUnderLoad {
		s.Doctor()
	}
	close(looked)
	require.NoError(t, <-ended)
	require.GreaterOrEqual(t, s.Count("SELECT count(*) FROM core.pipeline_run"), len(all), "nothing was going on")
	result := harness.Run(t, "", "doctor", "--data-dir", s.DataDir)
	require.Zero(t, result.Code, "%s\n%s", result.Err, result.Out)
}

// keepBusy submits contracts until it is told to end. A submit waits for its answer only, so
// runs pile up.
func keepBusy(s *harness.System, all []contract, end <-chan struct{}) error {
	for n := 0; ; n++ {
		select {
		case <-end:
			return nil
		default:
		}
		if _, err := extract(s, all[n%len(all)], fmt.Sprint("load ", n)); err != nil {
			return err
		}
	}
}

// What is broken in a running system is named, with the run.
func TestDoctorNamesWhatIsBroken(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Config{})
	run, err := extract(s, contracts(t)[0], "broken")
	require.NoError(t, err)
	require.Equal(t, "done", s.AwaitEnd(run).Status)
	s.Doctor()
	_, err = s.DB.Exec(t.Context(), "UPDATE llm.run_spend SET spent = spent + 0.000000000001 WHERE run_id = $1", run)
	require.NoError(t, err)
	record := s.Record()
	result := harness.Run(t, "", "doctor", "--database-url", record.DatabaseURL, "--redis-url", record.RedisURL, "--redis-prefix", record.RedisPrefix)
	require.Equal(t, 8, result.Code)
	require.Regexp(t, `purse-sum \(broken\): .*`+run, result.Out)
	require.Contains(t, result.Err, "broken: purse-sum")
	away := harness.Run(t, "", "doctor", "--database-url", "postgres://127.0.0.1:1/none", "--redis-url", record.RedisURL)
	require.Equal(t, 1, away.Code)
	require.Contains(t, away.Err, "nothing could be checked")
}
