package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	pawlv1 "pawl.internal/gen/pawl/v1"
)

// Pipelines groups the commands about pipelines.
type Pipelines struct {
	Apply    applyPipelines    `cmd:"" help:"Check pipelines and store them."`
	Validate validatePipelines `cmd:"" help:"Check pipelines and store nothing."`
	List     listPipelines     `cmd:"" help:"List the stored pipelines."`
}

type applyPipelines struct {
	Connection
	Files []string `arg:"" help:"Pipeline files in YAML or JSON; - for standard input." type:"path"`
}

// Run stores the pipelines.
func (c *applyPipelines) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	for _, file := range c.Files {
		source, err := readFile(file)
		if err != nil {
			return fmt.Errorf("pipeline: %w", err)
		}
		stored, err := client.CreatePipeline(ctx, &pawlv1.CreatePipelineRequest{
			Pipeline: &pawlv1.CreatePipelineRequest_Source{Source: string(source)}, FileName: file,
		})
		if err != nil {
			return coded(err)
		}
		if err := c.tell(s, stored); err != nil {
			return err
		}
	}
	return nil
}

func (c *applyPipelines) tell(s Streams, stored *pawlv1.CreatePipelineResponse) error {
	if c.JSON {
		return printJSON(s.Out, stored)
	}
	what := "was stored before"
	if stored.GetCreated() {
		what = "stored"
	}
	_, err := fmt.Fprintf(s.Out, "%s:%s %s\n", stored.GetPipeline().GetName(), stored.GetPipeline().GetVersion(), what)
	return err
}

type validatePipelines struct {
	Connection
	Files []string `arg:"" help:"Pipeline files in YAML or JSON; - for standard input." type:"path"`
}

// Run prints every problem as file:line:column: message.
func (c *validatePipelines) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	problems := 0
	for _, file := range c.Files {
		source, err := readFile(file)
		if err != nil {
			return fmt.Errorf("pipeline: %w", err)
		}
		checked, err := client.ValidatePipeline(ctx, &pawlv1.ValidatePipelineRequest{
			Pipeline: &pawlv1.ValidatePipelineRequest_Source{Source: string(source)}, FileName: file,
		})
		if err != nil {
			return coded(err)
		}
		if c.JSON {
			if err := printJSON(s.Out, checked); err != nil {
				return err
			}
		}
		problems += len(checked.GetProblems())
		for _, p := range checked.GetProblems() {
			fmt.Fprintf(s.Err, "%s:%d:%d: %s: %s\n", file, p.GetLine(), p.GetColumn(), p.GetPath(), p.GetMessage())
		}
	}
	if problems > 0 {
		return failure{errors.New("the pipelines have problems"), ExitError}
	}
	return nil
}

type listPipelines struct{ Connection }

// Run prints a table of pipelines.
func (c *listPipelines) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.ListPipelines(ctx, &pawlv1.ListPipelinesRequest{PageSize: 1000})
	if err != nil {
		return coded(err)
	}
	if c.JSON {
		return printJSON(s.Out, list)
	}
	table := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PIPELINE\tSTEPS\tDIGEST\tSTORED")
	for _, p := range list.GetPipelines() {
		fmt.Fprintf(table, "%s:%s\t%s\t%.12s\t%s\n", p.GetName(), p.GetVersion(), strings.Join(p.GetSteps(), ", "),
			p.GetDigest(), p.GetCreatedAt().AsTime().Format(time.RFC3339))
	}
	return table.Flush()
}
