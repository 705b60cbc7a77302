//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"time"

	"pawl.internal/services/internal/clock"
)

// clockVariable holds how wrong the process's clock is: 1h, -90s.
const clockVariable = "PAWL_CLOCK_OFFSET"

// Clock is the process's clock: base, as wrong as the variable says.
func Clock(base clock.Clock) clock.Clock {
	text := os.Getenv(clockVariable)
	if text == "" {
		return base
	}
	skew, err := time.ParseDuration(text)
	if err != nil {
		panic(fmt.Errorf("%s: %w", clockVariable, err)) // a test whose clock is right would prove nothing
	}
	return clock.Offset(base, skew)
}
