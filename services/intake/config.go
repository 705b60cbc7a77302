package intake

import (
	"errors"
	"fmt"
	"time"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/internal/redisconn"
)

// mostDocumentBytes leaves room for a document in one message between services.
const mostDocumentBytes = 24 << 20

// mostBatchBytes leaves room for what a batch is longer by as a message than as JSON.
const mostBatchBytes = 32 << 20

// Config is what intake is told at its start.
type Config struct {
	Database pg.Config        `kong:"-"`
	Redis    redisconn.Config `kong:"-"`

	REST             string        `help:"Address of the REST API." default:"127.0.0.1:8080" placeholder:"host:port" name:"rest"`
	MaxBodyBytes     int           `help:"Largest body of a call, in bytes." default:"102400"`
	MaxDocumentBytes int           `help:"Largest document, in bytes." default:"10485760"`
	MaxBatchBytes    int           `help:"Largest body of a batch that is sent in one request, in bytes; uploads have no such limit." default:"33554432"`
	MaxSpoolBytes    int64         `help:"Room on disk for uploads of batches that are checked before anything is made of them, in bytes." default:"2147483648"`
	SpoolDir         string        `help:"Folder of these uploads. Default: the system's for temporary files." type:"path"`
	RequestTimeout   time.Duration `help:"How long a REST call may take." default:"10s"`

	Admission Admission `embed:""`
}

// Validate returns all that is wrong with the configuration.
func (c Config) Validate() error {
	var problems []error
	if c.REST == "" {
		problems = append(problems, errors.New("rest must be an address such as 127.0.0.1:8080"))
	}
	if c.MaxBodyBytes < 1<<10 || c.MaxBodyBytes > mostDocumentBytes {
		problems = append(problems, fmt.Errorf("max-body-bytes must be 1024 to %d", mostDocumentBytes))
	}
	if c.MaxDocumentBytes < 1<<10 || c.MaxDocumentBytes > mostDocumentBytes {
		problems = append(problems, fmt.Errorf("max-document-bytes must be 1024 to %d", mostDocumentBytes))
	}
	if c.MaxBatchBytes < 1<<10 || c.MaxBatchBytes > mostBatchBytes {
		problems = append(problems, fmt.Errorf("max-batch-bytes must be 1024 to %d", mostBatchBytes))
	}
	if c.MaxSpoolBytes < 1<<10 {
		problems = append(problems, errors.New("max-spool-bytes must be 1024 or more"))
	}
	if c.RequestTimeout < 100*time.Millisecond {
		problems = append(problems, errors.New("request-timeout must be 100ms or more"))
	}
	return errors.Join(append(problems, c.Admission.Validate())...)
}
