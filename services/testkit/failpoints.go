package testkit

import (
	"testing"

	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/internal/golden"
)

// FailpointsTag is the build tag of programs that have failpoints: points at which they can be killed, stopped or starved.
// Package failpoint says by which rules.
const FailpointsTag = "failpoints"

// Failpoint is a point, and what a crash there means.
type Failpoint = failpoint.Point

// Failpoints lists the points.
func Failpoints() []Failpoint { return failpoint.Table() }

// Golden compares what a test produced with a file, which the flag -update rewrites.
func Golden(tb testing.TB, path string, got []byte) {
	tb.Helper()
	golden.Assert(tb, path, got)
}
