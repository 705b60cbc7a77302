package permit

// The parts of the script, for tests that run them alone.
var (
	BucketScript = bucketScript
	AdaptScript  = adaptScript
	SyncScript   = syncScript
)
