package intake

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
)

const (
	// chunkItems and chunkBytes bound what the orchestrator is told of a batch at once, and chunksInFlight how much is under
	// way: whoever submits faster waits.
	chunkItems     = 500
	chunkBytes     = 2 << 20
	chunksInFlight = 3
	// chunkTime bounds the making of one chunk.
	chunkTime = 30 * time.Second
	// maxTold is how many items an upload's answer tells of.
	maxTold = 1000
)

// chunks hands a batch's items to the orchestrator, some at a time. It is used by one goroutine, and ends the ones that it
// starts before finish or abandon return.
type chunks struct {
	f     *filling
	made  *outcome
	group *errgroup.Group
	// ctx ends when a chunk has failed.
	ctx   context.Context //nolint:containedctx // that of the group
	stop  context.CancelFunc
	items []*systemv1.AddBatchItemsRequest_Item
	bytes int
}

func newChunks(ctx context.Context, f *filling, made *outcome) *chunks {
	ctx, stop := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(chunksInFlight)
	return &chunks{f: f, made: made, group: group, ctx: ctx, stop: stop}
}

// add takes an item, and waits while too many chunks are under way.
func (c *chunks) add(item *systemv1.AddBatchItemsRequest_Item) error {
	size := proto.Size(item)
	if len(c.items) == chunkItems || len(c.items) > 0 && c.bytes+size > chunkBytes {
		if err := c.send(); err != nil {
			return err
		}
	}
	c.items, c.bytes = append(c.items, item), c.bytes+size
	return nil
}

// send lets the items that have come together be made.
func (c *chunks) send() error {
	if err := c.ctx.Err(); err != nil { // whatever ended it is what finish and abandon return
		return err
	}
	items := c.items
	c.items, c.bytes = nil, 0
	if c.f.batch.GetStatus() != pawlv1.BatchStatus_BATCH_STATUS_FILLING { // all that comes is there already
		c.group.Go(func() error {
			_, err := c.make(items)
			return err
		})
		return nil
	}
	return c.admit(items)
}

// admit makes items if their tenant may have so many more.
func (c *chunks) admit(items []*systemv1.AddBatchItemsRequest_Item) error {
	runs := 0
	for _, item := range items {
		if item.GetRejectedReason() == "" {
			runs++
		}
	}
	class, admission := batchClass(c.f.header.GetClass()), c.f.s.admission
	if err := admission.admitItems(c.ctx, c.f.who, class, runs); err != nil {
		return err
	}
	c.group.Go(func() error {
		added, err := c.make(items)
		// What was there already, or could not be made, adds nothing to what waits.
		admission.backlog.giveBack(lane{c.f.who.tenant, class}, int64(runs-added))
		return err
	})
	return nil
}

// make returns how many runs are new.
func (c *chunks) make(items []*systemv1.AddBatchItemsRequest_Item) (int, error) {
	ctx, cancel := context.WithTimeout(c.ctx, chunkTime)
	defer cancel()
	added, err := c.f.s.orchestrator.AddBatchItems(ctx, &systemv1.AddBatchItemsRequest{
		Tenant: c.f.who.tenant, BatchId: c.f.batch.GetBatchId(), Items: items,
	})
	if err != nil {
		return 0, err
	}
	return c.made.add(added.GetResults()), nil
}

// finish returns when all items are made, or one chunk could not be.
func (c *chunks) finish() error {
	defer c.stop()
	if len(c.items) > 0 {
		if err := c.send(); err != nil {
			return c.abandon(err)
		}
	}
	return c.group.Wait()
}

// abandon makes nothing more, and returns why: the error, or that of a chunk which was before it.
func (c *chunks) abandon(err error) error {
	failed := c.ctx.Err() != nil // before this stops it
	c.stop()
	if first := c.group.Wait(); failed && first != nil {
		return first
	}
	return err
}

// outcome is what became of a batch's items. It is safe for concurrent use.
type outcome struct {
	// keep is how many items are kept; without all only those that were refused or were there already.
	keep int
	all  bool

	mu                            sync.Mutex
	created, duplicates, rejected int32 // guarded by mu
	items                         []*pawlv1.BatchItemResult
}

// add counts what became of items, and returns how many are new.
func (o *outcome) add(results []*pawlv1.BatchItemResult) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.created
	for _, r := range results {
		told := true
		switch {
		case r.GetReason() != "":
			o.rejected++
		case r.GetDuplicate():
			o.duplicates++
		default:
			o.created++
			told = o.all
		}
		if told && len(o.items) < o.keep {
			o.items = append(o.items, r)
		}
	}
	return int(o.created - before)
}

// sorted returns the items in the order of their places, when no more are added.
func (o *outcome) sorted() []*pawlv1.BatchItemResult {
	slices.SortFunc(o.items, func(a, b *pawlv1.BatchItemResult) int { return cmp.Compare(a.GetIndex(), b.GetIndex()) })
	return o.items
}
