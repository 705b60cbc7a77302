//go:build !failpoints

package failpoint

// Enabled says whether this build has failpoints.
const Enabled = false

// Hit is a point; in this build nothing happens there.
func Hit(string, ...string) {}

// Armed reports whether a rule waits for the point; in this build none does.
func Armed(string) bool { return false }

// Start takes note of the services of this process.
func Start(...string) error { return nil }
