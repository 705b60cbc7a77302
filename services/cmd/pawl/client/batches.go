package client

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/sdk"
	"pawl.internal/services/internal/apijson"
)

// Batches groups the commands about batches.
type Batches struct {
	Submit      submitBatch  `cmd:"" help:"Submit a batch: JSON lines, an item each."`
	Get         getBatch     `cmd:"" help:"Say how a batch fares, and what failed why."`
	List        listBatches  `cmd:"" help:"List batches, newest first."`
	Watch       watchBatch   `cmd:"" help:"Follow a batch to its end."`
	Results     batchResults `cmd:"" help:"Print the results as JSON lines."`
	Cancel      cancelBatch  `cmd:"" help:"Stop everything that has not ended."`
	Pause       pauseBatch   `cmd:"" help:"Let no further step of a batch begin."`
	Resume      resumeBatch  `cmd:"" help:"End a pause."`
	RetryFailed retryBatch   `cmd:"" help:"Run what failed again, with the same data."`
}

// oneBatch is what the commands about one batch have in common.
type oneBatch struct {
	Connection
	ID string `arg:"" help:"Id of the batch."`
}

// call connects, asks, and prints the batch that is the answer.
func (c oneBatch) call(s Streams, ask func(*sdk.Client) (*pawlv1.Batch, error)) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	batch, err := ask(client)
	if err != nil {
		return coded(err)
	}
	return c.showBatch(s.Out, batch)
}

func (c Connection) showBatch(w io.Writer, batch *pawlv1.Batch) error {
	if c.JSON {
		return printJSON(w, batch)
	}
	return describeBatch(w, batch)
}

type getBatch struct{ oneBatch }

// Run prints the batch.
func (c *getBatch) Run(ctx context.Context, s Streams) error {
	return c.call(s, func(client *sdk.Client) (*pawlv1.Batch, error) {
		got, err := client.GetBatch(ctx, &pawlv1.GetBatchRequest{BatchId: c.ID})
		return got.GetBatch(), err
	})
}

type listBatches struct {
	Connection
	Limit int32 `help:"At most this many." default:"20"`
}

// Run prints a table of batches.
func (c *listBatches) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.ListBatches(ctx, &pawlv1.ListBatchesRequest{PageSize: c.Limit})
	if err != nil {
		return coded(err)
	}
	if c.JSON {
		return printJSON(s.Out, list)
	}
	table := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "BATCH\tPIPELINE\tLABEL\tSTATUS\tITEMS\tDONE\tFAILED\tCOST USD\tCREATED")
	for _, b := range list.GetBatches() {
		n := b.GetCounts()
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\n", b.GetBatchId(), b.GetPipeline(), b.GetLabel(),
			apijson.WordOf(b.GetStatus()), n.GetTotal(), n.GetDone(), n.GetFailed(), b.GetCostSoFarUsd(),
			b.GetCreatedAt().AsTime().Format(time.RFC3339))
	}
	return table.Flush()
}

type watchBatch struct{ oneBatch }

// Run follows the batch and exits with 0 only when every item is done.
func (c *watchBatch) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	return c.followBatch(ctx, client, s, c.ID)
}

type batchResults struct {
	oneBatch
	Follow bool   `help:"Go on until the batch has ended."`
	Errors bool   `help:"Only items that have no result."`
	Output string `short:"o" help:"File to write to instead of standard output." type:"path" placeholder:"FILE"`
}

// Run prints the results as they come.
func (c *batchResults) Run(ctx context.Context, s Streams) (err error) {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	out := s.Out
	if c.Output != "" {
		file, err := os.Create(c.Output)
		if err != nil {
			return err
		}
		defer func() {
			if closed := file.Close(); err == nil {
				err = closed
			}
		}()
		out = file
	}
	request := &pawlv1.StreamBatchResultsRequest{BatchId: c.ID, Follow: c.Follow, ErrorsOnly: c.Errors}
	for result, err := range client.Batches().Results(ctx, request) {
		if err == nil {
			err = printLine(out, result)
		}
		if err != nil {
			return coded(err)
		}
	}
	return nil
}

type cancelBatch struct {
	oneBatch
	Reason string `help:"Why, for the journal."`
	Etag   string `help:"Only if the batch still has this etag."`
}

// Run cancels the batch.
func (c *cancelBatch) Run(ctx context.Context, s Streams) error {
	return c.call(s, func(client *sdk.Client) (*pawlv1.Batch, error) {
		got, err := client.CancelBatch(ctx, &pawlv1.CancelBatchRequest{BatchId: c.ID, Reason: c.Reason, Etag: c.Etag})
		return got.GetBatch(), err
	})
}

type pauseBatch struct {
	oneBatch
	Reason string `help:"Why, for the journal."`
}

// Run pauses the batch.
func (c *pauseBatch) Run(ctx context.Context, s Streams) error {
	return c.call(s, func(client *sdk.Client) (*pawlv1.Batch, error) {
		got, err := client.PauseBatch(ctx, &pawlv1.PauseBatchRequest{BatchId: c.ID, Reason: c.Reason})
		return got.GetBatch(), err
	})
}

type resumeBatch struct {
	oneBatch
	Reason string `help:"Why, for the journal."`
}

// Run resumes the batch.
func (c *resumeBatch) Run(ctx context.Context, s Streams) error {
	return c.call(s, func(client *sdk.Client) (*pawlv1.Batch, error) {
		got, err := client.ResumeBatch(ctx, &pawlv1.ResumeBatchRequest{BatchId: c.ID, Reason: c.Reason})
		return got.GetBatch(), err
	})
}

type retryBatch struct {
	oneBatch
	Reason     string `help:"Why, for the journal." required:""`
	OnlyReason string `help:"Only items that failed for this reason." placeholder:"REASON"`
	Budget     string `help:"A new, higher budget of each item in US dollars." placeholder:"0.50"`
}

// Run runs failed items again, under the batch's etag as it is now.
func (c *retryBatch) Run(ctx context.Context, s Streams) error {
	return c.call(s, func(client *sdk.Client) (*pawlv1.Batch, error) {
		seen, err := client.GetBatch(ctx, &pawlv1.GetBatchRequest{BatchId: c.ID})
		if err != nil {
			return nil, err
		}
		got, err := client.RetryFailedItems(ctx, &pawlv1.RetryFailedItemsRequest{
			BatchId: c.ID, Reason: c.Reason, OnlyReason: c.OnlyReason, ItemBudgetUsd: c.Budget, Etag: seen.GetBatch().GetEtag(),
		})
		return got.GetBatch(), err
	})
}
