package permit

import "time"

// Buckets hold a tenth of a minute's limit and fill with nine tenths of it, as those of bucket.lua do.
const (
	bucketShare = 0.1
	refillShare = 0.9
)

// bucket is what a replica has for itself while Redis is away. The zero value is empty.
type bucket struct {
	levels amounts
	at     time.Time
}

// capacity is what a bucket of the limit holds: at least one request.
func capacity(limit float64, d Dimension) float64 {
	if d == Requests {
		return max(1, limit*bucketShare)
	}
	return limit * bucketShare
}

// refill brings the levels up to date.
func (b *bucket) refill(limits amounts, now time.Time) {
	minutes := now.Sub(b.at).Minutes()
	for d, limit := range limits {
		b.levels[d] = min(capacity(limit, Dimension(d)), b.levels[d]+refillShare*limit*minutes)
	}
	b.at = now
}

// fits reports whether a need may be drawn now: it is there, or the bucket is full and lends the rest.
func (b *bucket) fits(limits, need amounts) bool {
	for d, limit := range limits {
		if limit > 0 && b.levels[d] < min(need[d], capacity(limit, Dimension(d))) {
			return false
		}
	}
	return true
}

func (b *bucket) draw(need amounts) { b.levels = b.levels.minus(need) }

// back returns what was not used.
func (b *bucket) back(limits, rest amounts) {
	for d, limit := range limits {
		b.levels[d] = min(capacity(limit, Dimension(d)), b.levels[d]+rest[d])
	}
}
