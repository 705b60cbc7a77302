package testkit

import "pawl.internal/services/internal/failpoint"

// FailpointsTag is the build tag of programs that have failpoints: points at which they can be killed, stopped or starved.
// Package failpoint says by which rules.
const FailpointsTag = "failpoints"

// Failpoints lists the points.
func Failpoints() []failpoint.Point { return failpoint.Table() }
