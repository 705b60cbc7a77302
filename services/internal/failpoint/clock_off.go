//go:build !failpoints

package failpoint

import "pawl.internal/services/internal/clock"

// Clock is the process's clock; in this build it is base.
func Clock(base clock.Clock) clock.Clock { return base }
