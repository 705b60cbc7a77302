package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/proto"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/sdk"
	"pawl.internal/services/internal/apijson"
)

// barWidth is that of a progress bar, in characters.
const barWidth = 30

// followBatch shows the batch's progress until it ends, then how it did; items without a result are an error.
func (c Connection) followBatch(ctx context.Context, client *sdk.Client, s Streams, id string) error {
	progress := NewProgress(s.Err)
	defer progress.End()
	var last *pawlv1.Batch
	for batch, err := range client.Batches().Watch(ctx, id) {
		if err != nil {
			if ctx.Err() != nil {
				return errors.New("not followed any more; the batch itself goes on")
			}
			return coded(err)
		}
		last = batch
		progress.Show(id, batchLine(batch))
	}
	progress.End()
	if err := c.showBatch(s.Out, last); err != nil {
		return err
	}
	if n := last.GetCounts(); n.GetDone() < n.GetTotal()+n.GetRejected() {
		return failure{fmt.Errorf("batch %s is %s, and %d of %d items have no result", id, apijson.WordOf(last.GetStatus()),
			n.GetTotal()+n.GetRejected()-n.GetDone(), n.GetTotal()+n.GetRejected()), ExitRunNotDone}
	}
	return nil
}

// batchLine is the progress of a batch in one line.
func batchLine(b *pawlv1.Batch) string {
	n, full := b.GetCounts(), int(b.GetDoneShare()*barWidth)
	full = min(max(full, 0), barWidth)
	line := fmt.Sprintf("[%s%s] %3.0f%%  %s  %d of %d done", strings.Repeat("#", full), strings.Repeat(".", barWidth-full),
		b.GetDoneShare()*100, apijson.WordOf(b.GetStatus()), n.GetDone(), n.GetTotal())
	for _, part := range []struct {
		count int32
		name  string
	}{{n.GetFailed(), "failed"}, {n.GetNeedsReview(), "in review"}, {n.GetCancelled(), "cancelled"}, {n.GetRejected(), "refused"}} {
		if part.count > 0 {
			line += fmt.Sprintf(", %d %s", part.count, part.name)
		}
	}
	line += fmt.Sprintf("  $%s", b.GetCostSoFarUsd())
	if b.ItemsPerMinute != nil {
		line += fmt.Sprintf("  %.0f/min", b.GetItemsPerMinute())
	}
	if b.GetEstimatedEndAt() != nil {
		line += "  ends " + b.GetEstimatedEndAt().AsTime().Local().Format(time.TimeOnly)
	}
	return line
}

func describeBatch(w io.Writer, b *pawlv1.Batch) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "batch\t%s\npipeline\t%s\nlabel\t%s\nprogress\t%s\netag\t%s\n",
		b.GetBatchId(), b.GetPipeline(), b.GetLabel(), batchLine(b), b.GetEtag())
	if b.BudgetUsd != nil {
		fmt.Fprintf(table, "budget\t$%s\n", b.GetBudgetUsd())
	}
	for _, f := range b.GetFailures() {
		fmt.Fprintf(table, "failed\t%d × %s, such as run %s\n", f.GetCount(), f.GetReason(), f.GetExampleRunId())
	}
	return table.Flush()
}

// printLine writes a message on one line, whatever line breaks are in its documents.
func printLine(w io.Writer, m proto.Message) error {
	text, err := apijson.Marshal(m)
	if err != nil {
		return err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil {
		return err
	}
	line.WriteByte('\n')
	_, err = w.Write(line.Bytes())
	return err
}
