package steprunner

import (
	"errors"
	"fmt"
	"maps"
	"time"

	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/redisconn"
)

const (
	// maxSlots is how many steps one heartbeat can list.
	maxSlots = 10_000
	// handBackTime is what handing steps back takes at most: a claim or a release that is under way, and another.
	handBackTime = 5 * time.Second
)

// Config is what the step-runner is told at its start.
type Config struct {
	Redis redisconn.Config `kong:"-"`

	InteractiveSlots int           `help:"Interactive steps executed at once; 0 to leave them to other runners." default:"128"`
	BatchSlots       int           `help:"Batch steps executed at once; 0 to leave them to other runners." default:"128"`
	PipelineCache    int           `help:"Compiled pipelines kept in memory." default:"256"`
	Grace            time.Duration `help:"How long running steps may take to end at shutdown before they are handed back." default:"15s"`
	RPCTimeout       time.Duration `help:"How long one claim or completion may take before it is repeated." default:"5s" name:"rpc-timeout"`
}

// Validate returns all that is wrong with the configuration.
func (c Config) Validate() error {
	var problems []error
	if c.InteractiveSlots < 0 || c.BatchSlots < 0 || c.InteractiveSlots+c.BatchSlots < 1 {
		problems = append(problems, errors.New("interactive-slots and batch-slots must be 0 or more, and one of them above 0"))
	}
	if c.InteractiveSlots+c.BatchSlots > maxSlots {
		problems = append(problems, fmt.Errorf("interactive-slots and batch-slots together must be at most %d", maxSlots))
	}
	if c.PipelineCache < 1 {
		problems = append(problems, errors.New("pipeline-cache must be 1 or more"))
	}
	if c.Grace < 0 {
		problems = append(problems, errors.New("grace must be 0 or more"))
	}
	if c.RPCTimeout < 100*time.Millisecond {
		problems = append(problems, errors.New("rpc-timeout must be 100ms or more"))
	}
	return errors.Join(problems...)
}

// DrainTime is how long Drain may take: the grace, and then the handing back of what did not end.
func (c Config) DrainTime() time.Duration { return c.Grace + handBackTime }

// slots gives the classes that the runner serves, with how many steps of each it executes at once.
func (c Config) slots() map[pawlv1.RunClass]int {
	slots := map[pawlv1.RunClass]int{
		pawlv1.RunClass_RUN_CLASS_INTERACTIVE: c.InteractiveSlots,
		pawlv1.RunClass_RUN_CLASS_BATCH:       c.BatchSlots,
	}
	maps.DeleteFunc(slots, func(_ pawlv1.RunClass, size int) bool { return size == 0 })
	return slots
}
