package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"pawl.internal/services/cmd/pawl/client"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/config"
	"pawl.internal/services/internal/ids"
	"pawl.internal/services/internal/pg"
	"pawl.internal/services/llmgateway"
	"pawl.internal/services/llmgateway/recost"
)

// recostCmd applies corrected prices to what was spent before.
type recostCmd struct {
	DatabaseURL config.Secret `help:"PostgreSQL connection URL." placeholder:"postgres://…" required:""`
	ModelsFile  string        `help:"YAML file with the prices; each holds for its time. Default: those of the simulated provider." env:"PAWL_MODELS_FILE" type:"path"`
	From        string        `help:"The first day (UTC)." required:"" placeholder:"2026-11-01"`
	To          string        `help:"The last day (UTC)." required:"" placeholder:"2026-11-30"`
	Model       string        `help:"Only this model, as 'model' or 'provider/model'."`
	Apply       bool          `help:"Correct what is booked: log, purses, days and months. Without it nothing changes."`
}

// Run shows what the requests would cost, by model, and corrects it if it is to.
func (c *recostCmd) Run(ctx context.Context, s client.Streams) error {
	options := recost.Options{Model: c.Model, Apply: c.Apply}
	var fromErr, toErr error
	options.From, fromErr = time.Parse(time.DateOnly, c.From)
	options.To, toErr = time.Parse(time.DateOnly, c.To)
	if err := errors.Join(fromErr, toErr); err != nil || options.To.Before(options.From) {
		return client.WithExitCode(fmt.Errorf("--from=%s --to=%s: give two days such as 2026-11-30, the later one last", c.From, c.To), client.ExitUsage)
	}
	options.To = options.To.AddDate(0, 0, 1)
	pool, err := pg.Open(ctx, pg.Config{
		URL: c.DatabaseURL, MaxConns: 4, StatementTimeout: time.Minute, ConnectTimeout: 10 * time.Second, Settings: pg.ByKey(),
	}, "recost")
	if err != nil {
		return err
	}
	defer pool.Close()
	system := clock.System()
	lines, err := llmgateway.Recost(ctx, pool, c.ModelsFile, system.Now(), ids.New(system).V4(), options)
	c.print(s, lines)
	return err
}

func (c *recostCmd) print(s client.Streams, lines []recost.Line) {
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODEL\tREQUESTS\tCHANGED\tUNPRICED\tBOOKED USD\tBY THESE PRICES\tDIFFERENCE\tCORRECTED")
	changed, corrected := int64(0), int64(0)
	for _, l := range lines {
		fmt.Fprintf(w, "%s/%s\t%d\t%d\t%d\t%s\t%s\t%s\t%d\n", l.Provider, l.Model, l.Requests, l.Changed, l.Unpriced, l.Before, l.After,
			l.After-l.Before, l.Corrected)
		changed, corrected = changed+l.Changed, corrected+l.Corrected
	}
	_ = w.Flush() // it writes to a terminal or a pipe: nobody is left to tell
	switch {
	case !c.Apply && changed > 0:
		fmt.Fprintln(s.Err, "nothing was changed; --apply corrects what is booked")
	case c.Apply && corrected < changed:
		fmt.Fprintf(s.Err, "%d requests were settled anew meanwhile and left alone: run it again\n", changed-corrected)
	}
}
