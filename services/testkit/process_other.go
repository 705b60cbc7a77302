//go:build unix && !linux

package testkit

// Stands would report whether the process has been stopped; here it is taken for granted.
func Stands(int) bool { return true }
