package intake

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/fault"
)

const (
	// scheduleEvery is how often schedules are looked for whose time has come, scheduleLease how long one belongs to the replica
	// that took it, and scheduleAgain the wait after a submit that failed in passing.
	scheduleEvery = time.Second
	scheduleLease = 30 * time.Second
	scheduleAgain = 10 * time.Second
	// mostSchedules is how many are taken at once.
	mostSchedules = 50
	// scheduleLabel names the schedule in the labels of its runs.
	scheduleLabel = "schedule"
)

// keepSchedules starts the runs of schedules until ctx ends. Any number of replicas may do so: each takes what others have not,
// and a run that two of them start is one, since its idempotency key is that of the schedule and the time.
func (s *Service) keepSchedules(ctx context.Context) {
	look := func(ctx context.Context) {
		due, err := s.store.TakeDueSchedules(ctx, scheduleLease, mostSchedules)
		if err != nil {
			s.log.WarnContext(ctx, "schedules cannot be looked for", "error", err)
			return
		}
		for i := range due {
			if err := s.fire(ctx, &due[i]); err != nil {
				s.log.WarnContext(ctx, "schedule is looked at again", "schedule", due[i].ID, "error", err)
			}
		}
	}
	_ = clock.Every(ctx, s.clock, scheduleEvery, look) // only ends with ctx
}

// fire starts the run of a schedule whose time has come, and sets its next time.
func (s *Service) fire(ctx context.Context, d *store.DueSchedule) error {
	ctx, cancel := context.WithTimeout(ctx, scheduleLease/2)
	defer cancel()
	times, err := parseRecurrence(d.Cron, d.TimeZone, d.Now)
	if err != nil {
		return s.store.PutOffSchedule(ctx, d, scheduleLease, err.Error())
	}
	planned, next := times.latest(d.NextAt, d.Now, d.CatchUp), times.after(d.NextAt, d.Now)
	if planned.After(d.Now) {
		return s.store.PassSchedule(ctx, d, planned, uuid.Nil, "its time had passed by more than catch_up")
	}
	owner, err := s.store.GetTenant(ctx, d.Tenant)
	if err != nil {
		return err
	}
	if owner.Disabled {
		return s.store.PassSchedule(ctx, d, next, uuid.Nil, "the tenant is disabled")
	}
	// What its owner may do, the schedule may.
	ctx = context.WithValue(ctx, callerKey{}, caller{
		tenant: d.Tenant, role: store.RoleClient, keyPrefix: scheduleLabel, limits: owner.Limits,
	})
	run, skipped, err := s.start(ctx, d, planned)
	failpoint.Hit("intake.schedule.started")
	switch code := fault.CodeOf(err); {
	case err == nil && skipped != "":
		return s.store.PassSchedule(ctx, d, next, uuid.Nil, skipped)
	case err == nil:
		return s.store.PassSchedule(ctx, d, next, run, "")
	case code == codes.InvalidArgument || code == codes.NotFound: // it would be refused again
		return s.store.PassSchedule(ctx, d, next, uuid.Nil, problemOf(err))
	default:
		return s.store.PutOffSchedule(ctx, d, scheduleAgain, problemOf(err))
	}
}

// problemOf is an error for the schedule's owner.
func problemOf(err error) string {
	const longest = 1000
	f := fault.FromStatus(err)
	text := f.Message
	for _, v := range f.Violations {
		text += "; " + v.Field + " " + v.Message
	}
	return text[:min(len(text), longest)]
}

// start submits the run for a time, unless the one before says otherwise; skipped says why none was submitted then.
func (s *Service) start(ctx context.Context, d *store.DueSchedule, planned time.Time) (run uuid.UUID, skipped string, err error) {
	if skipped, err = s.yieldToLast(ctx, d); err != nil || skipped != "" {
		return uuid.Nil, skipped, err
	}
	asked := &pawlv1.CreateRunRequest{}
	if err := proto.Unmarshal(d.Run, asked); err != nil {
		return uuid.Nil, "", fault.Internal(err)
	}
	labels := map[string]string{scheduleLabel: d.Name}
	maps.Copy(labels, asked.GetLabels())
	asked.Labels = labels
	key := fmt.Sprintf("schedule/%s/%d", d.ID, planned.Unix())
	digest := sha256.Sum256([]byte(key))
	created, err := s.submit(ctx, submissionOf(asked, &systemv1.Idempotency{Key: key, RequestDigest: digest[:]}))
	if err != nil {
		return uuid.Nil, "", err
	}
	run, err = uuid.Parse(created.GetRunId())
	return run, "", err
}

// yieldToLast looks at the run that the schedule started last, and does what its overlap says.
func (s *Service) yieldToLast(ctx context.Context, d *store.DueSchedule) (skipped string, err error) {
	overlap := overlapOf(d.Overlap)
	if d.LastRunID == nil || overlap == pawlv1.ScheduleOverlap_SCHEDULE_OVERLAP_ALLOW {
		return "", nil
	}
	id := d.LastRunID.String()
	last, err := s.getRun(ctx, id)
	switch {
	case fault.CodeOf(err) == codes.NotFound || err == nil && last.GetRun().GetFinishedAt() != nil:
		return "", nil
	case err != nil:
		return "", err
	case overlap == pawlv1.ScheduleOverlap_SCHEDULE_OVERLAP_SKIP:
		return "run " + id + " had not ended", nil
	}
	_, err = s.orchestrator.CancelRun(ctx, &systemv1.CancelRunRequest{
		Tenant: d.Tenant, RunId: id, Actor: callerOf(ctx).actor(), Reason: "its schedule starts the next run",
	})
	return "", err
}
