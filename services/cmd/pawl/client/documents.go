package client

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/sdk"
)

// Documents groups the commands about documents.
type Documents struct {
	Put     putDocuments     `cmd:"" help:"Store documents."`
	Extract extractDocuments `cmd:"" help:"Store documents and extract fields from them."`
}

type putDocuments struct {
	Connection
	Files []string `arg:"" help:"Files in plain text or Markdown; - for standard input." type:"path"`
}

// Run stores the documents and prints their ids.
func (c *putDocuments) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	for _, file := range c.Files {
		stored, err := putFile(ctx, client, file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, coded(err))
		}
		if c.JSON {
			err = printJSON(s.Out, stored)
		} else {
			_, err = fmt.Fprintf(s.Out, "%s  %s\n", stored.GetDocumentId(), file)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// putFile stores one file.
func putFile(ctx context.Context, client *sdk.Client, file string) (*pawlv1.CreateDocumentResponse, error) {
	text, err := readFile(file)
	if err != nil {
		return nil, err
	}
	return client.CreateDocument(ctx, &pawlv1.CreateDocumentRequest{
		Text: string(text), MediaType: mediaType(file), ExternalId: filepath.Base(file),
	})
}

func mediaType(file string) string {
	if strings.EqualFold(filepath.Ext(file), ".md") {
		return "text/markdown"
	}
	return "text/plain"
}

type extractDocuments struct {
	Connection
	Files    []string `arg:"" help:"Files in plain text or Markdown; - for standard input." type:"path"`
	Pipeline string   `help:"Name of a pipeline, or name:version. Default: the newest document_extract."`
	Batch    bool     `help:"Take the batch lane instead of the interactive one."`
}

// Run extracts the fields of every document and prints one result a line.
func (c *extractDocuments) Run(ctx context.Context, s Streams) error {
	client, err := c.open()
	if err != nil {
		return err
	}
	defer client.Close()
	progress := NewProgress(s.Err)
	runs, errs := make([]*pawlv1.Run, len(c.Files)), make([]error, len(c.Files))
	var extractions sync.WaitGroup
	for i, file := range c.Files {
		extractions.Go(func() {
			runs[i], errs[i] = c.extract(ctx, client, file, func(run *pawlv1.Run) {
				progress.Show(filepath.Base(file), Line(run))
			})
		})
	}
	extractions.Wait()
	progress.End()
	for i := range runs {
		if errs[i] == nil {
			errs[i] = conclude(s.Out, runs[i], c.JSON)
		} else {
			errs[i] = fmt.Errorf("%s: %w", c.Files[i], coded(errs[i]))
		}
	}
	return errors.Join(errs...)
}

func (c *extractDocuments) extract(
	ctx context.Context, client *sdk.Client, file string, show func(*pawlv1.Run),
) (*pawlv1.Run, error) {
	class := pawlv1.RunClass_RUN_CLASS_INTERACTIVE
	if c.Batch {
		class = pawlv1.RunClass_RUN_CLASS_BATCH
	}
	return Extract(ctx, client, file, c.Pipeline, class, show)
}

// Extract stores a file, extracts its fields, and returns the run when it has ended; show is told of every change.
func Extract(
	ctx context.Context, client *sdk.Client, file, pipeline string, class pawlv1.RunClass, show func(*pawlv1.Run),
) (*pawlv1.Run, error) {
	document, err := putFile(ctx, client, file)
	if err != nil {
		return nil, err
	}
	started, err := client.ExtractDocument(ctx, &pawlv1.ExtractDocumentRequest{
		DocumentId: document.GetDocumentId(), Pipeline: pipeline, Class: class,
	})
	if err != nil {
		return nil, err
	}
	var last *pawlv1.Run
	for run, err := range client.Watch(ctx, started.GetRunId()) {
		if err != nil {
			return nil, err
		}
		last = run
		show(run)
	}
	return last, nil
}
