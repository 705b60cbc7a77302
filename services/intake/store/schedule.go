package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"pawl.internal/services/intake/store/db"
	"pawl.internal/services/internal/pg"
)

// Schedule is a row of access.schedule.
type Schedule = db.AccessSchedule

// DueSchedule is a schedule that was taken since its time has come, and the database's clock then.
type DueSchedule struct {
	Schedule
	Now time.Time
}

// AddSchedule stores a schedule. It reports false, and changes nothing, when the tenant has one of that name already.
func (s *Store) AddSchedule(ctx context.Context, n *Schedule) (added bool, err error) {
	rows, err := s.queries.InsertSchedule(ctx, db.InsertScheduleParams{
		Tenant: n.Tenant, Name: n.Name, ID: n.ID, Cron: n.Cron, TimeZone: n.TimeZone, Overlap: n.Overlap, CatchUp: n.CatchUp,
		Run: n.Run, CreatedBy: n.CreatedBy, NextAt: n.NextAt,
	})
	if err != nil {
		return false, fmt.Errorf("insert schedule: %w", pg.Fault(err))
	}
	return rows == 1, nil
}

// FindSchedule returns a tenant's schedule; ErrNotFound if there is none.
func (s *Store) FindSchedule(ctx context.Context, tenant, name string) (Schedule, error) {
	row, err := s.queries.GetSchedule(ctx, tenant, name)
	if errors.Is(err, pgx.ErrNoRows) {
		return Schedule{}, ErrNotFound
	}
	if err != nil {
		return Schedule{}, fmt.Errorf("get schedule: %w", pg.Fault(err))
	}
	return row, nil
}

// ListSchedules returns at most so many of a tenant's schedules, by name, behind the one of the name.
func (s *Store) ListSchedules(ctx context.Context, tenant, after string, most int) ([]Schedule, error) {
	rows, err := s.queries.ListSchedules(ctx, db.ListSchedulesParams{Tenant: tenant, After: after, Most: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", pg.Fault(err))
	}
	return rows, nil
}

// PauseSchedule pauses a schedule; ErrNotFound if there is none.
func (s *Store) PauseSchedule(ctx context.Context, tenant, name string) error {
	rows, err := s.queries.PauseSchedule(ctx, tenant, name)
	return foundOne(rows, err, "pause schedule")
}

// ResumeSchedule ends a pause, with the time of the next run; ErrNotFound if there is no such schedule.
func (s *Store) ResumeSchedule(ctx context.Context, tenant, name string, next time.Time) error {
	rows, err := s.queries.ResumeSchedule(ctx, db.ResumeScheduleParams{NextAt: next, Tenant: tenant, Name: name})
	return foundOne(rows, err, "resume schedule")
}

func foundOne(rows int64, err error, what string) error {
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", what, pg.Fault(err))
	case rows == 0:
		return ErrNotFound
	}
	return nil
}

// DeleteSchedule deletes a schedule, if there is one.
func (s *Store) DeleteSchedule(ctx context.Context, tenant, name string) error {
	if err := s.queries.DeleteSchedule(ctx, tenant, name); err != nil {
		return fmt.Errorf("delete schedule: %w", pg.Fault(err))
	}
	return nil
}

// TakeDueSchedules takes at most so many schedules whose time has come. They are the caller's for the length of the lease.
func (s *Store) TakeDueSchedules(ctx context.Context, lease time.Duration, most int) ([]DueSchedule, error) {
	rows, err := s.queries.TakeDueSchedules(ctx, lease, int32(most))
	if err != nil {
		return nil, fmt.Errorf("take due schedules: %w", pg.Fault(err))
	}
	due := make([]DueSchedule, len(rows))
	for i, r := range rows {
		due[i] = DueSchedule{Schedule: r.AccessSchedule, Now: r.Now}
	}
	return due, nil
}

// PassSchedule ends a time of a schedule that was taken: with the run that was started, or with why none was.
func (s *Store) PassSchedule(ctx context.Context, d *DueSchedule, next time.Time, run uuid.UUID, problem string) error {
	err := s.queries.PassSchedule(ctx, db.PassScheduleParams{ID: d.ID, Planned: &d.NextAt, NextAt: next, RunID: run, Problem: problem})
	if err != nil {
		return fmt.Errorf("pass schedule: %w", pg.Fault(err))
	}
	return nil
}

// PutOffSchedule gives back a schedule that was taken, for another try after the wait.
func (s *Store) PutOffSchedule(ctx context.Context, d *DueSchedule, wait time.Duration, problem string) error {
	err := s.queries.PutOffSchedule(ctx, db.PutOffScheduleParams{ID: d.ID, Planned: d.NextAt, Wait: wait, Problem: problem})
	if err != nil {
		return fmt.Errorf("put off schedule: %w", pg.Fault(err))
	}
	return nil
}
