package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/sdk"
)

// submitters is how many callers submit runs at the same time.
const submitters = 64

// throughput submits runs of three steps as fast as they are taken, and measures how many durable steps a second the
// system gets through, from the first submit to the end of the last run.
func (s *system) throughput(ctx context.Context, pipeline string, runs int) (row, error) {
	var since time.Time
	if err := s.db.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&since); err != nil {
		return row{}, err
	}
	began, cpu := time.Now(), cpuTime(s.command.Process.Pid)
	stopProfile := s.profile(pipeline)
	var next atomic.Int64
	group, groupCtx := errgroup.WithContext(ctx)
	for range submitters {
		group.Go(func() error {
			for {
				n := next.Add(1)
				if n > int64(runs) {
					return nil
				}
				_, err := s.client.CreateRun(groupCtx, &pawlv1.CreateRunRequest{
					Pipeline: pipeline, Input: sdk.JSON(fmt.Sprintf(`{"n": %d}`, n)),
				})
				if err != nil {
					return err
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return row{}, err
	}
	submitted := time.Since(began)
	if err := s.awaitDone(ctx, since, runs); err != nil {
		return row{}, err
	}
	cpu = cpuTime(s.command.Process.Pid) - cpu
	stopProfile()
	var seconds float64
	err := s.db.QueryRow(ctx, `
SELECT extract(epoch FROM max(finished_at) - min(created_at))::float8 FROM core.pipeline_run WHERE created_at >= $1`, since,
	).Scan(&seconds)
	steps := float64(3 * runs)
	return row{
		"load, " + pipeline + ": durable steps a second", fmt.Sprintf("%.0f", steps/seconds),
		fmt.Sprintf("%d runs of 3 steps in %.1f s, submitted in %.1f s; %.2f CPU-s per 1000 steps, stores included",
			runs, seconds, submitted.Seconds(), 1000*cpu.Seconds()/steps),
	}, err
}

// awaitDone waits until all runs since a time have ended, and fails if any has ended without a result.
func (s *system) awaitDone(ctx context.Context, since time.Time, runs int) error {
	for {
		var done, ended int
		err := s.db.QueryRow(ctx, `
SELECT count(*) FILTER (WHERE status = 'done'), count(*) FILTER (WHERE finished_at IS NOT NULL)
FROM core.pipeline_run WHERE created_at >= $1`, since).Scan(&done, &ended)
		if err != nil {
			return err
		}
		if ended >= runs {
			if done < ended {
				return fmt.Errorf("%d of %d runs have no result", ended-done, ended)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d runs have ended: %w", ended, runs, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}
