// Package client is the part of the command line that uses a running system over its public API: runs, documents and
// pipelines. Data goes to standard output, messages and progress to standard error.
package client

import (
	"errors"
	"fmt"
	"io"
	"os"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"pawl.internal/sdk"
	"pawl.internal/services/cmd/pawl/dev"
	"pawl.internal/services/internal/apijson"
	"pawl.internal/services/internal/config"
)

// The exit codes of the client's commands.
const (
	ExitError        = 1
	ExitUsage        = 2
	ExitNotFound     = 3
	ExitConflict     = 4
	ExitNotPermitted = 5
	ExitTimeout      = 6
	// ExitRunNotDone says that the run has ended without a result.
	ExitRunNotDone = 7
)

// Streams are where a command writes.
type Streams struct{ Out, Err io.Writer }

// Connection says which system is used. Without flags it is the one that runs on the data folder.
type Connection struct {
	Server  string        `help:"Address of the gRPC API; default: the system that 'pawl dev' runs on the data folder." placeholder:"host:port"`
	APIKey  config.Secret `help:"API key." placeholder:"KEY" name:"api-key"`
	DataDir string        `help:"Data folder of 'pawl dev'." default:".pawl" type:"path"`
	JSON    bool          `help:"Print JSON, as the REST API does." name:"json"`
}

// open connects.
func (c Connection) open() (*sdk.Client, error) {
	server, key := c.Server, c.APIKey.Reveal()
	if server == "" {
		record, err := dev.ReadRecord(c.DataDir)
		if err != nil {
			return nil, fmt.Errorf("no server is named, and none runs on %s: give --server and --api-key "+
				"(PAWL_SERVER, PAWL_API_KEY), or start one with 'pawl dev' (%w)", c.DataDir, err)
		}
		server = record.GRPC
		if key == "" {
			key = record.APIKey
		}
	}
	return sdk.New(server, key)
}

// failure is an error with the exit code that stands for it.
type failure struct {
	error
	code int
}

// WithExitCode gives an error the exit code that stands for it.
func WithExitCode(err error, code int) error { return failure{err, code} }

// ExitCode is what the shell is told.
func (f failure) ExitCode() int { return f.code }

// Unwrap returns the error itself.
func (f failure) Unwrap() error { return f.error }

// coded gives an error of the API the exit code that stands for it.
func coded(err error) error {
	said, ok := errors.AsType[*sdk.Error](err)
	if !ok {
		return err
	}
	code := ExitError
	switch said.Code {
	case codes.NotFound:
		code = ExitNotFound
	case codes.AlreadyExists, codes.Aborted, codes.FailedPrecondition:
		code = ExitConflict
	case codes.PermissionDenied, codes.Unauthenticated:
		code = ExitNotPermitted
	case codes.DeadlineExceeded:
		code = ExitTimeout
	default:
	}
	return failure{err, code}
}

// printJSON writes a message in the form of the REST API.
func printJSON(w io.Writer, m proto.Message) error {
	text, err := apijson.Marshal(m)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

// readFile reads a file, or standard input for "-".
func readFile(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(path)
}
