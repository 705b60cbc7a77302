package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"pawl.internal/services/cmd/pawl/client"
	"pawl.internal/services/cmd/pawl/dev"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/llmgateway"
)

// callsCmd is about the call log.
type callsCmd struct {
	client.Calls

	Reparse reparseCmd `cmd:"" help:"Read stored answers again, as this build reads them, and show what differs from what is stored. No provider is asked."`
}

// reparseCmd reads stored answers again. It needs the database and nothing else.
type reparseCmd struct {
	DatabaseURL config.Secret `help:"PostgreSQL connection URL; default: that of the system that 'pawl dev' runs on the data folder." placeholder:"postgres://…"`
	DataDir     string        `help:"Data folder of 'pawl dev'." default:".pawl" type:"path"`
	ModelsFile  string        `help:"YAML file with the prices, as the gateway has it." env:"PAWL_MODELS_FILE" type:"path"`

	RunID  string `name:"run" help:"Only answers of this run." placeholder:"ID"`
	From   string `help:"Answers of runs that were made from this day on (UTC)." placeholder:"2026-11-01"`
	To     string `help:"Answers of runs that were made up to this day (UTC)." placeholder:"2026-11-30"`
	Format string `help:"Only answers of this form, such as openai."`
	Apply  bool   `help:"Correct what is stored, and what is booked. A retried step gets the corrected answer without asking again."`
}

// Run shows what differs, and corrects it if it is to.
func (c *reparseCmd) Run(ctx context.Context, s client.Streams) error {
	now := clock.System().Now()
	options, err := c.options(now)
	if err != nil {
		return client.WithExitCode(err, client.ExitUsage)
	}
	if options.Prices, err = llmgateway.PricesOf(c.ModelsFile, os.LookupEnv, now); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	if c.DatabaseURL.IsZero() {
		record, err := dev.ReadRecord(c.DataDir)
		if err != nil {
			return fmt.Errorf("no database is named, and no system runs on %s: give --database-url (PAWL_DATABASE_URL): %w", c.DataDir, err)
		}
		c.DatabaseURL = config.NewSecret(record.DatabaseURL)
	}
	pool, err := pg.Open(ctx, pg.Config{
		URL: c.DatabaseURL, MaxConns: 3, StatementTimeout: time.Minute, ConnectTimeout: 5 * time.Second, Settings: pg.ByKey(),
	}, "pawl-reparse")
	if err != nil {
		return err
	}
	defer pool.Close()
	return c.reparse(s, func(visit func(llmgateway.Reparsed)) (int, error) {
		return llmgateway.Reparse(ctx, pool, now, options, visit)
	})
}

// reparse shows what differs as it is found.
func (c *reparseCmd) reparse(s client.Streams, do func(func(llmgateway.Reparsed)) (int, error)) error {
	table := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	differ, corrected := 0, 0
	read, err := do(func(r llmgateway.Reparsed) {
		if differ == 0 {
			fmt.Fprintln(table, "RUN\tCALL\tTRY\tMODEL\tSTATE\tREASON\tFINISH\tTOKENS IN\tOUT\tCOST USD")
		}
		differ++
		if r.Corrected {
			corrected++
		}
		writeReparsed(table, r)
	})
	if flushed := table.Flush(); err == nil {
		err = flushed
	}
	fmt.Fprintf(s.Err, "%d answers were read again; %d differ, %d were corrected\n", read, differ, corrected)
	if err == nil && differ > 0 && !c.Apply {
		fmt.Fprintln(s.Err, "nothing was changed: --apply corrects them")
	}
	return err
}

func writeReparsed(w io.Writer, r llmgateway.Reparsed) {
	before, after := r.Before.Outcome, r.After
	fmt.Fprintf(w, "%s\t%x\t%d\t%s/%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Before.Key.RunID, r.Before.Key.Digest, r.Before.TryNo,
		r.Before.Provider, r.Before.Model, change(before.State, after.State), change(before.Reason, after.Reason),
		change(before.FinishReason, after.FinishReason), change(before.Usage.Input, after.Usage.Input),
		change(before.Usage.Output, after.Usage.Output), change(before.Cost, after.Cost))
}

// change shows a value, and what becomes of it.
func change[T comparable](before, after T) string {
	if before == after {
		return fmt.Sprint(after)
	}
	return fmt.Sprintf("%v -> %v", before, after)
}

// options reads what is meant. A day without an end is up to now.
func (c *reparseCmd) options(now time.Time) (o llmgateway.ReparseOptions, err error) {
	o = llmgateway.ReparseOptions{Format: c.Format, Apply: c.Apply, To: now.Add(time.Hour)}
	if c.RunID != "" {
		if c.From != "" || c.To != "" {
			return o, errors.New("give either --run, or --from and --to")
		}
		if o.Run, err = uuid.Parse(c.RunID); err != nil {
			return o, fmt.Errorf("--run: %w", err)
		}
		return o, nil
	}
	if c.From == "" {
		return o, errors.New("say which answers: give --run, or --from")
	}
	if o.From, err = time.Parse(time.DateOnly, c.From); err != nil {
		return o, fmt.Errorf("--from: %w", err)
	}
	if c.To != "" {
		if o.To, err = time.Parse(time.DateOnly, c.To); err != nil {
			return o, fmt.Errorf("--to: %w", err)
		}
		o.To = o.To.AddDate(0, 0, 1)
	}
	return o, nil
}
