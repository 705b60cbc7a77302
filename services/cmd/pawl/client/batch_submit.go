package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/jsonlines"
)

// longestLine bounds a line; the server has a limit of its own on items, which is lower.
const longestLine = 24 << 20

type submitBatch struct {
	Connection
	File        string            `arg:"" help:"JSON lines, each an item: {\"custom_id\": …, \"input\": …} or {\"document_id\": …}; - for standard input." type:"path"`
	Pipeline    string            `help:"Name of a pipeline, or name:version." required:""`
	Key         string            `help:"Idempotency key: a submit that broke off and is repeated with its key makes exactly what is missing. Default: a random one."`
	Name        string            `help:"What you call the batch."`
	Mode        string            `help:"What becomes of a batch with invalid items: nothing is made of it, or the others run." enum:"all_or_nothing,skip_invalid" default:"all_or_nothing"`
	Interactive bool              `help:"Take the interactive lane instead of the batch one."`
	Label       map[string]string `help:"Labels of every run, as name=value."`
	Budget      string            `help:"The most that all items together may cost, in US dollars." placeholder:"25.00"`
	ItemBudget  string            `help:"The most that one item may cost, in US dollars." placeholder:"0.50"`
	Deadline    time.Duration     `help:"How long the batch may take."`
	CallbackURL string            `help:"Where the end of the batch is told." name:"callback-url"`
	Watch       bool              `help:"Follow the batch to its end."`
}

// Run uploads the batch, and follows it if asked.
func (c *submitBatch) Run(ctx context.Context, s Streams) error {
	source, err := openFile(c.File)
	if err != nil {
		return err
	}
	defer source.Close()
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	made, err := client.Batches().SubmitParts(ctx, c.header(), itemsOf(source))
	if err != nil {
		return coded(err)
	}
	for _, p := range made.GetProblems() {
		if p.GetReason() != "" {
			fmt.Fprintf(s.Err, "line %d: %s: %s\n", p.GetIndex()+1, p.GetReason(), p.GetError())
		}
	}
	fmt.Fprintf(s.Err, "%d items were made, %d were there already, %d are invalid\n", made.GetCreated(), made.GetDuplicates(), made.GetRejected())
	if c.Watch {
		return c.followBatch(ctx, client, s, made.GetBatchId())
	}
	if c.JSON {
		return printJSON(s.Out, made)
	}
	fmt.Fprintln(s.Out, made.GetBatchId())
	fmt.Fprintf(s.Err, "follow it with: pawl batches watch %s\n", made.GetBatchId())
	return nil
}

func (c *submitBatch) header() *pawlv1.BatchHeader {
	header := &pawlv1.BatchHeader{
		Pipeline: c.Pipeline, Label: c.Name, Labels: c.Label, CallbackUrl: c.CallbackURL, BudgetUsd: c.Budget,
		ItemBudgetUsd: c.ItemBudget, IdempotencyKey: c.Key, Class: pawlv1.RunClass_RUN_CLASS_BATCH,
		Mode: pawlv1.BatchMode_BATCH_MODE_ALL_OR_NOTHING,
	}
	if c.Mode == "skip_invalid" {
		header.Mode = pawlv1.BatchMode_BATCH_MODE_SKIP_INVALID
	}
	if c.Interactive {
		header.Class = pawlv1.RunClass_RUN_CLASS_INTERACTIVE
	}
	if c.Deadline > 0 {
		header.Deadline = durationpb.New(c.Deadline)
	}
	return header
}

func openFile(path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(os.Stdin), nil
	}
	return os.Open(path)
}

// itemsOf reads the items of JSON lines; a line that is none is an invalid item, of which the server decides.
func itemsOf(source io.Reader) iter.Seq2[*pawlv1.UploadBatchRequest, error] {
	return func(yield func(*pawlv1.UploadBatchRequest, error) bool) {
		lines := jsonlines.New(source, longestLine)
		for {
			line, err := lines.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("read the items: %w", err))
				return
			}
			if !yield(jsonlines.Item(line, longestLine), nil) {
				return
			}
		}
	}
}
