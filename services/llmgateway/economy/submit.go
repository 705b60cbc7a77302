package economy

import (
	"context"
	"errors"

	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/llmgateway/provider"
	"pawl.internal/services/llmgateway/store"
)

// gatherMost is how many requests are not kept waiting for more.
const gatherMost = 50_000

// submit makes batches of what was gathered, and brings to an end what dead gateways have begun to make.
func (l *Lane) submit(ctx context.Context) error {
	abandoned, err := l.Store.AdoptJobs(ctx, l.Holder, l.cfg.AdoptAfter)
	if err != nil {
		return err
	}
	var failed error // one provider's trouble is not another's
	for _, job := range abandoned {
		failed = errors.Join(failed, l.recover(ctx, job))
	}
	kinds, err := l.Store.FindGathered(ctx, l.cfg.Gather, gatherMost)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		failed = errors.Join(failed, l.submitKind(ctx, kind))
	}
	return failed
}

// submitKind makes one batch of a kind.
func (l *Lane) submitKind(ctx context.Context, kind store.Kind) error {
	api, ok := l.API(kind.Provider)
	items, size := gatherMost, int64(0)
	if ok {
		items, size = api.Size()
	}
	job, err := l.Store.TakeWaiting(ctx, l.IDs.V7(), l.Holder, kind, items, size)
	if err != nil || job == nil {
		return err
	}
	if !ok { // the models file has no such provider any more
		return l.Store.EndJob(ctx, job.ID)
	}
	failpoint.Hit("gateway.economy.prepared")
	return l.send(ctx, api, *job)
}

// recover finds out whether a job that is not known to be made was made. If not, its requests wait for another one, or are
// withdrawn there if their time has come.
func (l *Lane) recover(ctx context.Context, job store.Job) error {
	api, ok := l.API(job.Provider)
	if !ok {
		return l.Store.EndJob(ctx, job.ID)
	}
	known, err := l.Store.KnownJobs(ctx, job.Provider)
	if err != nil {
		return err
	}
	id, err := api.FindBatch(ctx, provider.Batch{ID: job.ID, CreatedAt: job.CreatedAt, Items: make([]provider.BatchItem, job.Items)}, known)
	switch {
	case err == nil:
		_, err = l.Store.NoteSent(ctx, job.ID, id, l.cfg.LookEvery)
		return err
	case errors.Is(err, provider.ErrNoBatch):
		return l.Store.ReturnJob(ctx, job.ID)
	default:
		return err
	}
}

// send makes the batch at its provider. What the provider refuses is asked in the usual way, which shows why.
func (l *Lane) send(ctx context.Context, api API, job store.Job) error {
	items, err := l.Store.Items(ctx, job.ID)
	if err != nil {
		return err
	}
	batch := provider.Batch{ID: job.ID, CreatedAt: job.CreatedAt, Items: make([]provider.BatchItem, len(items))}
	for i, item := range items {
		batch.Items[i] = provider.BatchItem{CustomID: item.CustomID, Body: item.Body}
	}
	id, err := api.Submit(ctx, batch)
	failpoint.Hit("gateway.economy.made")
	if refused, ok := errors.AsType[*provider.BatchError](err); ok && refused.Refused() || errors.Is(err, provider.ErrNoBatch) {
		l.Log.ErrorContext(ctx, "provider refuses a batch; its requests go the usual way", "provider", job.Provider, "model", job.Model,
			"items", len(items), "error", err)
		return l.Store.EndJob(ctx, job.ID)
	}
	if err != nil {
		return err // it may have been made, which is found out when it is old enough
	}
	l.Log.InfoContext(ctx, "batch sent", "provider", job.Provider, "model", job.Model, "items", len(items), "job", job.ID)
	_, err = l.Store.NoteSent(ctx, job.ID, id, l.cfg.LookEvery)
	failpoint.Hit("gateway.economy.noted")
	return err
}
