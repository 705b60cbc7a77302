package economy

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/store"
)

// settlers is how many results of a batch are stored at the same time; they share commits.
const settlers = 64

// look asks how far batches are, and takes over what those brought that have ended.
func (l *Lane) look(ctx context.Context) error {
	jobs, err := l.Store.DueJobs(ctx, l.cfg.LookEvery)
	if err != nil {
		return err
	}
	var failed error
	for _, job := range jobs {
		failed = errors.Join(failed, l.lookAt(ctx, job))
	}
	return failed
}

func (l *Lane) lookAt(ctx context.Context, job store.Job) error {
	api, ok := l.API(job.Provider)
	if !ok {
		return nil // until the models file has the provider again, or the time of its requests has come
	}
	status, err := api.LookAtBatch(ctx, job.ProviderJob)
	switch {
	case errors.Is(err, provider.ErrNoBatch):
		l.Log.ErrorContext(ctx, "provider has lost a batch; its requests go the usual way", "provider", job.Provider, "job", job.ID)
		return l.Store.EndJob(ctx, job.ID)
	case err != nil:
		return err
	case !status.Ended:
		return nil
	}
	if err := l.takeResults(ctx, api, job, status); err != nil {
		return err
	}
	failpoint.Hit("gateway.economy.settled")
	return l.Store.EndJob(ctx, job.ID)
}

// takeResults settles the requests that were answered. It may be repeated: what is settled is left alone.
func (l *Lane) takeResults(ctx context.Context, api API, job store.Job, status provider.BatchStatus) error {
	open, err := l.Store.ItemNames(ctx, job.ID)
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(settlers)
	err = api.BatchResults(ctx, status, func(r provider.BatchResult) error {
		item, ours := open[r.CustomID]
		if !ours || r.Unfinished {
			return groupCtx.Err()
		}
		group.Go(func() error {
			if err := l.Settle(groupCtx, item, job, r.Exchange); err != nil {
				return err
			}
			return l.Store.FinishItems(groupCtx, []store.ItemRef{item})
		})
		return groupCtx.Err()
	})
	return errors.Join(group.Wait(), err)
}

// withdraw takes out of the lane what cannot wait any more, and what was cancelled.
func (l *Lane) withdraw(ctx context.Context) error {
	if err := l.Store.WithdrawWaiting(ctx); err != nil {
		return err
	}
	return errors.Join(l.stopLate(ctx), l.settleWithdrawn(ctx))
}

// settleWithdrawn settles what was taken out of the lane as not sent.
func (l *Lane) settleWithdrawn(ctx context.Context) error {
	for {
		items, err := l.Store.FindWithdrawn(ctx, settleMost)
		if err != nil || len(items) == 0 {
			return err
		}
		changes := make([]store.Change, len(items))
		for i, item := range items {
			changes[i] = &store.Settle{
				Key: item.Key, TryNo: item.TryNo, OnlyInFlight: true,
				Outcome: store.Outcome{State: store.TryNotSent, Reason: "batch_unfinished"},
			}
		}
		if err := errors.Join(l.Store.SubmitAll(ctx, changes)...); err != nil {
			return err
		}
		if err := l.Store.FinishItems(ctx, items); err != nil {
			return err
		}
	}
}

// stopLate cancels batches of which an answer is needed in the usual way, or none is needed at all. What they have answered
// by then is kept.
func (l *Lane) stopLate(ctx context.Context) error {
	jobs, err := l.Store.FindLate(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, job := range jobs {
		failed = errors.Join(failed, l.stop(ctx, job))
	}
	return failed
}

func (l *Lane) stop(ctx context.Context, job store.Job) error {
	api, ok := l.API(job.Provider)
	if !ok {
		return l.Store.EndJob(ctx, job.ID)
	}
	err := api.CancelBatch(ctx, job.ProviderJob)
	if refused, ok := errors.AsType[*provider.BatchError](err); err != nil && (!ok || !refused.Refused()) {
		return err
	} // what is refused has ended meanwhile
	return l.Store.NoteCancelling(ctx, job.ID)
}

// tell wakes the steps whose requests are settled.
func (l *Lane) tell(ctx context.Context) error {
	if counts, err := l.Store.CountLane(ctx); err == nil {
		l.Counted(counts)
	}
	waiters, err := l.Store.TakeTellings(ctx, tellAgain, tellMost)
	if err != nil {
		return err
	}
	if len(waiters) == 0 {
		return nil
	}
	steps := make([]*systemv1.StepRef, len(waiters))
	for i, w := range waiters {
		steps[i] = &systemv1.StepRef{RunId: w.Item.Key.RunID[:], Step: w.Step, Shard: w.Shard, Generation: w.Generation}
	}
	if err := l.Wake(ctx, steps); err != nil {
		return err // again in a while; and the steps look by themselves too
	}
	return l.Store.NoteTold(ctx, waiters, tellings)
}
