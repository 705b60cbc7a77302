//go:build unix && !linux

package testkit

// stands would report whether the process has been stopped; here it is taken for granted.
func stands(int) bool { return true }
