package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"pawl.internal/services/cmd/pawl/client"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/llmgateway/catalog"
)

// modelsCmd groups the commands about models files.
type modelsCmd struct {
	Check checkModels `cmd:"" help:"Check a models file, with line and column of every problem, and show its routes."`
}

// checkModels checks a models file as the gateway would load it.
type checkModels struct {
	File string `arg:"" help:"The models file." type:"existingfile"`
}

// Run prints the routes with their targets and limits.
func (c *checkModels) Run(_ context.Context, s client.Streams) error {
	known, err := catalog.Load(c.File, os.LookupEnv, clock.System().Now())
	if err != nil {
		return err
	}
	for _, warning := range known.Warnings {
		fmt.Fprintln(s.Err, "warning:", warning)
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ROUTE\tTARGET\tTRIED\tLIMIT GROUP\tIN FLIGHT")
	for _, name := range known.RouteNames() {
		route, _ := known.Route(name)
		for _, t := range route.Targets {
			group := known.Groups[t.Provider.Group]
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\n", name, t.Name(), whenTried(t), group.Name, group.Concurrency)
		}
	}
	return w.Flush()
}

// whenTried says when a target has its turn.
func whenTried(t catalog.Target) string {
	switch {
	case len(t.Match) > 0:
		var after []string
		for _, m := range t.Match {
			after = append(after, strings.ReplaceAll(string(m), "_", " "))
		}
		return "after " + strings.Join(after, " or ")
	case t.Weight > 0:
		return fmt.Sprintf("weight %d", t.Weight)
	default:
		return "in order"
	}
}
