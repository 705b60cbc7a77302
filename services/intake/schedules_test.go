package intake_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/sdk"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/testkit"
)

// nightly is a schedule of the pipeline that jobs are runs of.
func nightly(change func(*pawlv1.Schedule)) *pawlv1.CreateScheduleRequest {
	s := &pawlv1.Schedule{
		Name: "nightly", Cron: "0 3 * * *", TimeZone: "Europe/Berlin",
		Run: &pawlv1.CreateRunRequest{
			Pipeline: "llm_completion", Input: sdk.JSON(`{"model":"default","messages":[{"role":"user","content":"Hello"}]}`),
			Labels: map[string]string{"team": "reports"},
		},
	}
	if change != nil {
		change(s)
	}
	return &pawlv1.CreateScheduleRequest{Schedule: s}
}

func (b *bundle) schedules(t *testing.T) pawlv1.ScheduleServiceClient {
	t.Helper()
	return pawlv1.NewScheduleServiceClient(b.conn(t))
}

// due makes the time of the schedule come now, or some time ago.
func (b *bundle) due(t *testing.T, ago string) {
	t.Helper()
	_, err := b.database.Pool.Exec(t.Context(),
		`UPDATE access.schedule SET next_at = date_trunc('minute', clock_timestamp()) - $1::interval, taken_until = 'epoch'`, ago)
	require.NoError(t, err)
}

// passed waits until the schedule's time is one to come again, and returns the schedule.
func (b *bundle) passed(t *testing.T) (shown *pawlv1.Schedule) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		got, err := b.schedules(t).GetSchedule(as(t, b.acme), &pawlv1.GetScheduleRequest{Name: "nightly"})
		if err == nil && !got.GetSchedule().GetNextAt().AsTime().After(got.GetSchedule().GetCreatedAt().AsTime()) {
			err = errors.New("its time has not been dealt with")
		}
		shown = got.GetSchedule()
		return err
	})
	return shown
}

func (o *orchestrator) submitted() []*systemv1.CreateRunRequest {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.created
}

func TestASchedule(t *testing.T) {
	t.Parallel()
	b := setup(t)
	client := b.schedules(t)
	made, err := client.CreateSchedule(as(t, b.acme), nightly(nil))
	require.NoError(t, err)
	require.Equal(t, "nightly", made.GetSchedule().GetName())
	require.Equal(t, pawlv1.ScheduleOverlap_SCHEDULE_OVERLAP_SKIP, made.GetSchedule().GetOverlap())
	require.True(t, made.GetSchedule().GetNextAt().IsValid())
	_, err = client.CreateSchedule(as(t, b.acme), nightly(nil))
	require.NoError(t, err, "the same again changes nothing")
	_, err = client.CreateSchedule(as(t, b.acme), nightly(func(s *pawlv1.Schedule) { s.Cron = "0 4 * * *" }))
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_SCHEDULE_EXISTS), "%v", err)

	listed, err := client.ListSchedules(as(t, b.acme), &pawlv1.ListSchedulesRequest{})
	require.NoError(t, err)
	require.Len(t, listed.GetSchedules(), 1)
	others, err := client.ListSchedules(as(t, b.rival), &pawlv1.ListSchedulesRequest{})
	require.NoError(t, err)
	require.Empty(t, others.GetSchedules())
	_, err = client.GetSchedule(as(t, b.rival), &pawlv1.GetScheduleRequest{Name: "nightly"})
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_SCHEDULE_NOT_FOUND), "%v", err)

	paused, err := client.PauseSchedule(as(t, b.acme), &pawlv1.PauseScheduleRequest{Name: "nightly"})
	require.NoError(t, err)
	require.True(t, paused.GetSchedule().GetPaused())
	require.Nil(t, paused.GetSchedule().GetNextAt())
	resumed, err := client.ResumeSchedule(as(t, b.acme), &pawlv1.ResumeScheduleRequest{Name: "nightly"})
	require.NoError(t, err)
	require.Equal(t, made.GetSchedule().GetNextAt().AsTime(), resumed.GetSchedule().GetNextAt().AsTime())
	_, err = client.DeleteSchedule(as(t, b.rival), &pawlv1.DeleteScheduleRequest{Name: "nightly"})
	require.NoError(t, err)
	b.passed(t) // another tenant's delete has deleted nothing
	_, err = client.DeleteSchedule(as(t, b.acme), &pawlv1.DeleteScheduleRequest{Name: "nightly"})
	require.NoError(t, err)
	_, err = client.GetSchedule(as(t, b.acme), &pawlv1.GetScheduleRequest{Name: "nightly"})
	require.True(t, fault.Is(err, faultv1.ErrorReason_ERROR_REASON_SCHEDULE_NOT_FOUND), "%v", err)
}

func TestI18_ABadScheduleIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, change := range map[string]func(*pawlv1.Schedule){
		"a name":      func(s *pawlv1.Schedule) { s.Name = "Nightly!" },
		"a time":      func(s *pawlv1.Schedule) { s.Cron = "99 * * * *" },
		"a zone":      func(s *pawlv1.Schedule) { s.TimeZone = "Europe/Atlantis" },
		"a key":       func(s *pawlv1.Schedule) { s.Run.IdempotencyKey = "k" },
		"a begin":     func(s *pawlv1.Schedule) { s.Run.NotBefore = timestamppb.Now() },
		"an input":    func(s *pawlv1.Schedule) { s.Run.Input = sdk.JSON(`{"model":7}`) },
		"no JSON":     func(s *pawlv1.Schedule) { s.Run.Input = sdk.JSON(`{`) },
		"no pipeline": func(s *pawlv1.Schedule) { s.Run.Pipeline = "nothing" },
		"a budget":    func(s *pawlv1.Schedule) { s.Run.BudgetUsd = "much" },
	} {
		_, err := b.schedules(t).CreateSchedule(as(t, b.acme), nightly(change))
		require.Error(t, err, name)
		require.Contains(t, []string{"InvalidArgument", "NotFound"}, fault.CodeOf(err).String(), "%s: %v", name, err)
	}
	var n int
	require.NoError(t, b.database.Pool.QueryRow(t.Context(), `SELECT count(*) FROM access.schedule`).Scan(&n))
	require.Zero(t, n)
}

func TestAScheduleStartsItsRunOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := &bundle{orchestrator: b.orchestrator, gateway: b.gateway, database: b.database, redis: b.redis}
	other.start(t)
	_, err := b.schedules(t).CreateSchedule(as(t, b.acme), nightly(nil))
	require.NoError(t, err)
	b.due(t, "2 minutes")
	shown := b.passed(t)
	require.NotEmpty(t, shown.GetLastRunId())
	require.Empty(t, shown.GetLastProblem())
	runs := b.orchestrator.submitted()
	require.Len(t, runs, 1)
	require.Equal(t, map[string]string{"team": "reports", "schedule": "nightly"}, runs[0].GetLabels())
	require.Equal(t, "acme", runs[0].GetTenant())
}

// A replica that died between the run and its note leaves the schedule to others, who come to the same run.
func TestAScheduleWhoseStarterDiedStartsNoSecondRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.schedules(t).CreateSchedule(as(t, b.acme), nightly(func(s *pawlv1.Schedule) { s.Overlap = pawlv1.ScheduleOverlap_SCHEDULE_OVERLAP_ALLOW }))
	require.NoError(t, err)
	b.due(t, "2 minutes")
	first := b.passed(t)
	_, err = b.database.Pool.Exec(t.Context(), `UPDATE access.schedule SET next_at = last_at, last_at = NULL, last_run_id = NULL`)
	require.NoError(t, err)
	require.Equal(t, first.GetLastRunId(), b.passed(t).GetLastRunId())
	require.Len(t, b.orchestrator.submitted(), 1)
}

func TestWhatAScheduleDoesWhileItsLastRunGoesOn(t *testing.T) {
	t.Parallel()
	for overlap, want := range map[pawlv1.ScheduleOverlap]int{
		pawlv1.ScheduleOverlap_SCHEDULE_OVERLAP_SKIP: 1, pawlv1.ScheduleOverlap_SCHEDULE_OVERLAP_ALLOW: 2,
		pawlv1.ScheduleOverlap_SCHEDULE_OVERLAP_CANCEL: 2,
	} {
		t.Run(overlap.String(), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			_, err := b.schedules(t).CreateSchedule(as(t, b.acme), nightly(func(s *pawlv1.Schedule) { s.Overlap = overlap }))
			require.NoError(t, err)
			b.due(t, "3 minutes")
			first := b.passed(t).GetLastRunId()
			b.due(t, "2 minutes")
			second := b.passed(t)
			require.Len(t, b.orchestrator.submitted(), want)
			cancelled := 0
			for _, call := range b.orchestrator.taken() {
				if call == "CancelRun" {
					cancelled++
				}
			}
			switch overlap {
			case pawlv1.ScheduleOverlap_SCHEDULE_OVERLAP_SKIP:
				require.Equal(t, first, second.GetLastRunId())
				require.Contains(t, second.GetLastProblem(), "had not ended")
			case pawlv1.ScheduleOverlap_SCHEDULE_OVERLAP_CANCEL:
				require.Equal(t, 1, cancelled)
			default:
				require.Zero(t, cancelled)
			}
		})
	}
}

func TestAScheduleOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.schedules(t).CreateSchedule(as(t, b.acme), nightly(nil))
	require.NoError(t, err)
	b.orchestrator.setAway(fault.Unavailable(errors.New("test"), "the orchestrator is away"))
	b.due(t, "2 minutes")
	testkit.Eventually(t, patience, func() error {
		var problem string
		err := b.database.Pool.QueryRow(t.Context(), `SELECT last_problem FROM access.schedule`).Scan(&problem)
		if err == nil && problem == "" {
			err = errors.New("nothing was tried")
		}
		return err
	})
	b.orchestrator.setAway(nil)
	_, err = b.database.Pool.Exec(t.Context(), `UPDATE access.schedule SET taken_until = 'epoch'`)
	require.NoError(t, err)
	require.Empty(t, b.passed(t).GetLastProblem())
	require.Len(t, b.orchestrator.submitted(), 1)
}

func TestATimeThatPassedLongAgoIsLeftOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.schedules(t).CreateSchedule(as(t, b.acme), nightly(func(s *pawlv1.Schedule) { s.Cron = "0 0 29 2 *" }))
	require.NoError(t, err)
	b.due(t, "26 hours")
	shown := b.passed(t)
	require.Empty(t, shown.GetLastRunId())
	require.Contains(t, shown.GetLastProblem(), "catch_up")
	require.Empty(t, b.orchestrator.submitted())
}
