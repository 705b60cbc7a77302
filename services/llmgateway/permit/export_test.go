package permit

// SyncScript is the whole script, for tests that run it alone.
func SyncScript() string { return syncScript() }

// AdaptScript is the part that moves the ceiling, with what it needs.
func AdaptScript() string { return bucketScript + adaptScript }
