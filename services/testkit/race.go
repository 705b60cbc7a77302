//go:build race

package testkit

// RaceDetector says that the tests run under the race detector, which makes everything many times slower.
const RaceDetector = true
