// Package demo shows Pawl at its main job: it runs the whole system, extracts the fields of ten contracts, and compares
// them with the true answers that lie beside the contracts.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"

	"github.com/alecthomas/kong"
	"golang.org/x/sync/errgroup"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/sdk"
	"pawl.internal/services/cmd/pawl/client"
	"pawl.internal/services/cmd/pawl/dev"
	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/config"
)

// Cmd is what the demonstration is told.
type Cmd struct {
	dev.Config
	Contracts string `help:"Folder of the contracts." default:"examples/contracts" type:"existingdir"`
	Exit      bool   `help:"End the system when the contracts are done."`
}

// Run runs the system and the demonstration on it; the system goes on until Ctrl-C, or ends at once with --exit.
func (c *Cmd) Run(ctx context.Context, command *kong.Context, s client.Streams) error {
	c.Told = config.Environment(command)
	files, err := contracts(c.Contracts)
	if err != nil {
		return err
	}
	if c.PortBase == 0 {
		if c.PortBase, err = dev.FreePortBase(ctx); err != nil {
			return err
		}
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	records := make(chan dev.Record, 1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return dev.Run(ctx, c.Config, s.Err, func(r dev.Record) { records <- r }) })
	group.Go(func() error {
		select {
		case record := <-records:
			return c.show(ctx, record, files, s, end)
		case <-ctx.Done():
			return nil
		}
	})
	return group.Wait()
}

// show extracts the contracts and says what came of it. An error ends the system.
func (c *Cmd) show(ctx context.Context, record dev.Record, files []string, s client.Streams, end func()) error {
	connection, err := sdk.New(record.GRPC, record.APIKey)
	if err != nil {
		return err
	}
	defer connection.Close()
	fmt.Fprintf(s.Out, "Pawl is running at %s. Ten contracts go through document_extract:v2.\n\n", record.REST)
	began := clock.System().Now()
	runs, err := extractAll(ctx, connection, files, s.Out)
	if err != nil {
		return err
	}
	if err := report(s.Out, files, runs, clock.System().Now().Sub(began)); err != nil {
		return err
	}
	if c.Exit {
		end()
		return nil
	}
	record.Describe(s.Out)
	return nil
}

// extractAll extracts all contracts at once.
func extractAll(ctx context.Context, connection *sdk.Client, files []string, w io.Writer) ([]*pawlv1.Run, error) {
	progress := client.NewProgress(w)
	defer progress.End()
	runs, errs := make([]*pawlv1.Run, len(files)), make([]error, len(files))
	var extractions sync.WaitGroup
	for i, file := range files {
		name := fmt.Sprintf("%-24s", filepath.Base(file))
		extractions.Go(func() {
			runs[i], errs[i] = client.Extract(ctx, connection, file, "document_extract",
				pawlv1.RunClass_RUN_CLASS_INTERACTIVE, func(run *pawlv1.Run) { progress.Show(name, client.Line(run)) })
		})
	}
	extractions.Wait()
	return runs, errors.Join(errs...)
}

// contracts lists the contracts of a folder.
func contracts(folder string) ([]string, error) {
	text, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return nil, err
	}
	markdown, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil {
		return nil, err
	}
	files := append(text, markdown...)
	if len(files) == 0 {
		return nil, fmt.Errorf("there are no contracts (*.txt, *.md) in %s: run this in the repository, or name them with --contracts", folder)
	}
	return slices.Sorted(slices.Values(files)), nil
}
