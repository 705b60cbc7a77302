package orchestrator

import (
	"errors"
	"fmt"
	"time"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/internal/redisconn"
)

// The bounds of Config.
const (
	leastLease = 500 * time.Millisecond
	mostLease  = 10 * time.Minute
	mostLanes  = 64
)

// Config is what the orchestrator is told at its start.
type Config struct {
	Database pg.Config        `kong:"-"`
	Redis    redisconn.Config `kong:"-"`

	Lease        time.Duration `help:"How long a step-runner may be silent before its steps are given to others." default:"10s"`
	CommitLanes  int           `help:"How many groups of transitions commit at the same time." default:"2"`
	ControlConns int32         `help:"Connections of the pool for heartbeats and sweeps." default:"3"`
}

// Validate returns all that is wrong with the configuration.
func (c Config) Validate() error {
	var problems []error
	if c.Lease < leastLease || c.Lease > mostLease {
		problems = append(problems, fmt.Errorf("lease must be %s to %s", leastLease, mostLease))
	}
	if c.CommitLanes < 1 || c.CommitLanes > mostLanes {
		problems = append(problems, fmt.Errorf("commit-lanes must be 1 to %d", mostLanes))
	}
	// The stores are common to all services, which get them when the flags have been read.
	if !c.Database.URL.IsZero() && c.Database.MaxConns < int32(c.CommitLanes)+2 {
		problems = append(problems, errors.New("database-max-conns must be at least commit-lanes + 2"))
	}
	if c.ControlConns < 2 {
		problems = append(problems, errors.New("control-conns must be at least 2"))
	}
	return errors.Join(problems...)
}
