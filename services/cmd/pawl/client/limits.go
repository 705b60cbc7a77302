package client

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	pawlv1 "pawl.internal/gen/pawl/v1"
)

// Limits shows how the providers' limits stand.
type Limits struct{ Connection }

// Run prints the limit groups with their limits by the minute.
func (c *Limits) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	found, err := client.GetLimits(ctx, &pawlv1.GetLimitsRequest{})
	if err != nil {
		return coded(err)
	}
	if c.JSON {
		return printJSON(s.Out, found)
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "GROUP\tLIMIT\tCONFIGURED\tNOW\tIN USE\tWAITING\t")
	for _, g := range found.GetGroups() {
		fmt.Fprintf(w, "%s\tin flight\t%d\t%d\t%d\t%d interactive, %d batch\t%s\n", g.GetName(), g.GetConcurrency(), g.GetCeiling(),
			g.GetInFlight(), g.GetWaitingInteractive(), g.GetWaitingBatch(), stateOfGroup(g))
		for _, r := range g.GetRates() {
			fmt.Fprintf(w, "\t%s a minute\t%d\t%d\t%d free at once\t\t\n", r.GetOf(), r.GetPerMinute(), r.GetCeiling(), r.GetAvailable())
		}
	}
	return w.Flush()
}

// stateOfGroup says what is out of the ordinary.
func stateOfGroup(g *pawlv1.LimitGroup) string {
	switch {
	case g.GetDegraded():
		return "Redis is away: each gateway keeps to its share"
	case g.GetPausedUntil() != nil:
		return "paused by the provider until " + g.GetPausedUntil().AsTime().Format(time.TimeOnly)
	default:
		return ""
	}
}
