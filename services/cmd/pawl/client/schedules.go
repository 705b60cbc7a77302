package client

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/sdk"
	"pawl.internal/services/internal/apijson"
)

// Schedules groups the commands about schedules.
type Schedules struct {
	Create createSchedule `cmd:"" help:"Store a schedule, given in JSON as the REST API takes it."`
	List   listSchedules  `cmd:"" help:"List the schedules, with when they start a run next."`
	Pause  pauseSchedule  `cmd:"" help:"Let a schedule start no runs."`
	Resume resumeSchedule `cmd:"" help:"Let a paused schedule start runs again."`
	Delete deleteSchedule `cmd:"" help:"Delete a schedule; its runs go on."`
}

type createSchedule struct {
	Connection
	File string `arg:"" help:"File with name, cron, time_zone, overlap and run; - for standard input." type:"path"`
}

// Run stores the schedule.
func (c *createSchedule) Run(ctx context.Context, s Streams) error {
	text, err := readFile(c.File)
	if err != nil {
		return fmt.Errorf("schedule: %w", err)
	}
	schedule := &pawlv1.Schedule{}
	if err := apijson.Unmarshal(text, schedule); err != nil {
		return fmt.Errorf("schedule %s: %w", c.File, err)
	}
	return c.with(s, func(client *sdk.Client) (*pawlv1.Schedule, error) {
		stored, err := client.CreateSchedule(ctx, &pawlv1.CreateScheduleRequest{Schedule: schedule})
		return stored.GetSchedule(), err
	})
}

// with prints the schedule that a call returns.
func (c *Connection) with(s Streams, call func(*sdk.Client) (*pawlv1.Schedule, error)) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	schedule, err := call(client)
	if err != nil {
		return coded(err)
	}
	if c.JSON {
		return printJSON(s.Out, schedule)
	}
	_, err = fmt.Fprintf(s.Out, "%s: next %s\n", schedule.GetName(), nextOf(schedule))
	return err
}

// nextOf says when a schedule starts a run next.
func nextOf(schedule *pawlv1.Schedule) string {
	if schedule.GetPaused() {
		return "paused"
	}
	return schedule.GetNextAt().AsTime().Local().Format(time.RFC3339)
}

type listSchedules struct{ Connection }

// Run prints the schedules as a table.
func (c *listSchedules) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	table := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(table, "NAME\tCRON\tPIPELINE\tNEXT\tLAST RUN\tPROBLEM")
	}
	for request := (&pawlv1.ListSchedulesRequest{}); ; {
		page, err := client.ListSchedules(ctx, request)
		if err != nil {
			return coded(err)
		}
		for _, schedule := range page.GetSchedules() {
			if c.JSON {
				if err := printJSON(s.Out, schedule); err != nil {
					return err
				}
				continue
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", schedule.GetName(), schedule.GetCron(), schedule.GetRun().GetPipeline(),
				nextOf(schedule), schedule.GetLastRunId(), schedule.GetLastProblem())
		}
		if request.PageToken = page.GetNextPageToken(); request.GetPageToken() == "" {
			return table.Flush()
		}
	}
}

type pauseSchedule struct {
	Connection
	Name string `arg:"" help:"Name of the schedule."`
}

// Run pauses the schedule.
func (c *pauseSchedule) Run(ctx context.Context, s Streams) error {
	return c.with(s, func(client *sdk.Client) (*pawlv1.Schedule, error) {
		paused, err := client.PauseSchedule(ctx, &pawlv1.PauseScheduleRequest{Name: c.Name})
		return paused.GetSchedule(), err
	})
}

type resumeSchedule struct {
	Connection
	Name string `arg:"" help:"Name of the schedule."`
}

// Run ends the pause.
func (c *resumeSchedule) Run(ctx context.Context, s Streams) error {
	return c.with(s, func(client *sdk.Client) (*pawlv1.Schedule, error) {
		resumed, err := client.ResumeSchedule(ctx, &pawlv1.ResumeScheduleRequest{Name: c.Name})
		return resumed.GetSchedule(), err
	})
}

type deleteSchedule struct {
	Connection
	Name string `arg:"" help:"Name of the schedule."`
}

// Run deletes the schedule.
func (c *deleteSchedule) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := client.DeleteSchedule(ctx, &pawlv1.DeleteScheduleRequest{Name: c.Name}); err != nil {
		return coded(err)
	}
	_, err = fmt.Fprintf(s.Out, "%s deleted\n", c.Name)
	return err
}
