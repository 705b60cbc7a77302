package intake

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/intake/store"
	"pawl.internal/services/internal/fault"
)

// usualCatchUp is how late a run may be started, if the schedule does not say otherwise.
const usualCatchUp = time.Hour

// CreateSchedule stores a schedule, after its run was checked as a submit would be.
func (s *Service) CreateSchedule(ctx context.Context, req *pawlv1.CreateScheduleRequest) (*pawlv1.CreateScheduleResponse, error) {
	if err := s.checkSize(req); err != nil {
		return nil, err
	}
	asked := req.GetSchedule()
	times, err := s.checkSchedule(ctx, asked)
	if err != nil {
		return nil, err
	}
	run, err := proto.MarshalOptions{Deterministic: true}.Marshal(asked.GetRun())
	if err != nil {
		return nil, fault.Internal(err)
	}
	row := &store.Schedule{
		Tenant: callerOf(ctx).tenant, Name: asked.GetName(), ID: s.ids.V7(), Cron: asked.GetCron(), TimeZone: asked.GetTimeZone(),
		Overlap: overlapName(asked.GetOverlap()), CatchUp: catchUpOf(asked), Run: run, CreatedBy: callerOf(ctx).actor(),
		NextAt: times.Next(s.clock.Now()),
	}
	added, err := s.store.AddSchedule(ctx, row)
	if err != nil {
		return nil, err
	}
	stored, err := s.findSchedule(ctx, row.Name)
	if err != nil {
		return nil, err
	}
	if !added && !sameSchedule(&stored, row) {
		return nil, fault.New(faultv1.ErrorReason_ERROR_REASON_SCHEDULE_EXISTS, "there is another schedule %s: delete it first", row.Name)
	}
	shown, err := scheduleProto(&stored)
	return &pawlv1.CreateScheduleResponse{Schedule: shown}, err
}

// checkSchedule refuses a schedule whose runs would be refused, and returns its times.
func (s *Service) checkSchedule(ctx context.Context, asked *pawlv1.Schedule) (*recurrence, error) {
	times, err := parseRecurrence(asked.GetCron(), asked.GetTimeZone(), s.clock.Now())
	if err != nil {
		return nil, invalidField("schedule.cron", err.Error())
	}
	run := asked.GetRun()
	switch {
	case run.GetIdempotencyKey() != "":
		return nil, invalidField("schedule.run.idempotency_key", "must be left out: each run has a key of its own")
	case run.GetNotBefore() != nil:
		return nil, invalidField("schedule.run.not_before", "must be left out: the schedule says when")
	}
	if _, _, err := s.checked(ctx, submissionOf(run, nil)); err != nil {
		return nil, err
	}
	return times, nil
}

func invalidField(field, message string) error {
	return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, fault.Violation{Field: field, Message: message})
}

func catchUpOf(asked *pawlv1.Schedule) time.Duration {
	if asked.GetCatchUp() == nil {
		return usualCatchUp
	}
	return asked.GetCatchUp().AsDuration()
}

func sameSchedule(a, b *store.Schedule) bool {
	return a.Cron == b.Cron && a.TimeZone == b.TimeZone && a.Overlap == b.Overlap && a.CatchUp == b.CatchUp && string(a.Run) == string(b.Run)
}

// GetSchedule returns a schedule of the caller's tenant.
func (s *Service) GetSchedule(ctx context.Context, req *pawlv1.GetScheduleRequest) (*pawlv1.GetScheduleResponse, error) {
	shown, err := s.showSchedule(ctx, req.GetName())
	return &pawlv1.GetScheduleResponse{Schedule: shown}, err
}

// ListSchedules returns a page of the tenant's schedules.
func (s *Service) ListSchedules(ctx context.Context, req *pawlv1.ListSchedulesRequest) (*pawlv1.ListSchedulesResponse, error) {
	tenant := callerOf(ctx).tenant
	after, err := s.pages.open(tenant, req)
	if err != nil {
		return nil, err
	}
	size := int(pageSize(req.GetPageSize(), defaultPage))
	rows, err := s.store.ListSchedules(ctx, tenant, after, size)
	if err != nil {
		return nil, err
	}
	page := &pawlv1.ListSchedulesResponse{}
	for i := range rows {
		shown, err := scheduleProto(&rows[i])
		if err != nil {
			return nil, err
		}
		page.Schedules = append(page.Schedules, shown)
	}
	if len(rows) == size {
		page.NextPageToken = s.pages.seal(tenant, req, rows[size-1].Name)
	}
	return page, nil
}

// PauseSchedule lets a schedule start no runs.
func (s *Service) PauseSchedule(ctx context.Context, req *pawlv1.PauseScheduleRequest) (*pawlv1.PauseScheduleResponse, error) {
	if err := s.store.PauseSchedule(ctx, callerOf(ctx).tenant, req.GetName()); err != nil {
		return nil, noSchedule(req.GetName(), err)
	}
	shown, err := s.showSchedule(ctx, req.GetName())
	return &pawlv1.PauseScheduleResponse{Schedule: shown}, err
}

// ResumeSchedule ends a pause.
func (s *Service) ResumeSchedule(ctx context.Context, req *pawlv1.ResumeScheduleRequest) (*pawlv1.ResumeScheduleResponse, error) {
	stored, err := s.findSchedule(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	now := s.clock.Now()
	times, err := parseRecurrence(stored.Cron, stored.TimeZone, now)
	if err != nil {
		return nil, fault.Internal(err) // it was understood when it was stored
	}
	if err := s.store.ResumeSchedule(ctx, stored.Tenant, stored.Name, times.Next(now)); err != nil {
		return nil, noSchedule(stored.Name, err)
	}
	shown, err := s.showSchedule(ctx, stored.Name)
	return &pawlv1.ResumeScheduleResponse{Schedule: shown}, err
}

// DeleteSchedule ends a schedule.
func (s *Service) DeleteSchedule(ctx context.Context, req *pawlv1.DeleteScheduleRequest) (*pawlv1.DeleteScheduleResponse, error) {
	return &pawlv1.DeleteScheduleResponse{}, s.store.DeleteSchedule(ctx, callerOf(ctx).tenant, req.GetName())
}

func (s *Service) showSchedule(ctx context.Context, name string) (*pawlv1.Schedule, error) {
	stored, err := s.findSchedule(ctx, name)
	if err != nil {
		return nil, err
	}
	return scheduleProto(&stored)
}

func (s *Service) findSchedule(ctx context.Context, name string) (store.Schedule, error) {
	stored, err := s.store.FindSchedule(ctx, callerOf(ctx).tenant, name)
	return stored, noSchedule(name, err)
}

// noSchedule says in words that there is no such schedule; other errors stay.
func noSchedule(name string, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return fault.New(faultv1.ErrorReason_ERROR_REASON_SCHEDULE_NOT_FOUND, "there is no schedule %s", name).WithMeta("name", name)
	}
	return err
}

func scheduleProto(row *store.Schedule) (*pawlv1.Schedule, error) {
	run := &pawlv1.CreateRunRequest{}
	if err := proto.Unmarshal(row.Run, run); err != nil {
		return nil, fault.Internal(err)
	}
	shown := &pawlv1.Schedule{
		Name: row.Name, Cron: row.Cron, TimeZone: row.TimeZone, Overlap: overlapOf(row.Overlap), CatchUp: durationpb.New(row.CatchUp),
		Run: run, Paused: row.Paused, LastProblem: row.LastProblem, CreatedAt: timestamppb.New(row.CreatedAt),
	}
	if !row.Paused {
		shown.NextAt = timestamppb.New(row.NextAt)
	}
	if row.LastAt != nil {
		shown.LastAt = timestamppb.New(*row.LastAt)
	}
	if row.LastRunID != nil {
		shown.LastRunId = row.LastRunID.String()
	}
	return shown, nil
}

const overlapPrefix = "SCHEDULE_OVERLAP_"

// overlapName is how an overlap is stored.
func overlapName(o pawlv1.ScheduleOverlap) string {
	if o == pawlv1.ScheduleOverlap_SCHEDULE_OVERLAP_UNSPECIFIED {
		o = pawlv1.ScheduleOverlap_SCHEDULE_OVERLAP_SKIP
	}
	return strings.ToLower(strings.TrimPrefix(o.String(), overlapPrefix))
}

func overlapOf(name string) pawlv1.ScheduleOverlap {
	return pawlv1.ScheduleOverlap(pawlv1.ScheduleOverlap_value[overlapPrefix+strings.ToUpper(name)])
}
