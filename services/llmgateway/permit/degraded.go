package permit

import "time"

// gentleCut is what is left of the limits after a cut, as in adapt.lua.
const gentleCut = 0.85

// failed notes that a question was not answered. Once our permits may have expired, our share of the limits is what is left.
// a.mu is held.
func (a *agent) failed(err error) {
	a.failing, a.hushed = true, false
	if !a.degraded {
		a.deps.Log.Warn("permits cannot be renewed", "group", a.group, "error", err)
	}
	if a.stale() {
		a.setDegraded(true)
	}
	a.serve()
}

// setDegraded tells a change. a.mu is held.
func (a *agent) setDegraded(degraded bool) {
	if a.degraded == degraded {
		return
	}
	a.degraded = degraded
	// What was taken from the shared buckets just before is not known here: ours begin empty.
	a.local = bucket{at: a.deps.Clock.Now()}
	a.deps.Degraded(a.group, degraded)
}

// replicas is how many share the limits. a.mu is held.
func (a *agent) replicas() int { return max(1, a.deps.Replicas()) }

// localLimits are this replica's share of the limits per minute. a.mu is held.
func (a *agent) localLimits() amounts {
	limits := a.limit.perMinute()
	if a.known != nil {
		limits = a.known.Limits
	}
	return limits.times(1 / float64(a.replicas()))
}

// serveLocally gives permits out of this replica's share. a.mu is held.
func (a *agent) serveLocally() {
	limits := a.localLimits()
	a.local.refill(limits, a.deps.Clock.Now())
	for class := range Class(classes) {
		for a.lines[class].size > 0 && a.room(class) > 0 {
			w := a.lines[class].first()
			if !a.local.fits(limits, w.draws) {
				return // nobody passes it by
			}
			a.local.draw(w.draws)
			a.grant(w)
		}
	}
}

// localRoom is how many more calls of a class may begin within this replica's share. a.mu is held.
func (a *agent) localRoom(class Class) int {
	if a.limit.Concurrency == 0 {
		return unlimited
	}
	allowed := max(1, int(float64(a.limit.Concurrency)*a.factor())/a.replicas())
	forBatch := batchShare(allowed, a.limit.InteractiveReserve)
	if class == Batch {
		return min(allowed-a.busy(), forBatch-a.inUse[Batch])
	}
	sure := 0
	if a.limit.BatchFloor > 0 && allowed >= 2 {
		sure = min(a.lines[Batch].size, max(1, int(float64(allowed)*a.limit.BatchFloor)), forBatch)
	}
	return allowed - a.inUse[Interactive] - max(a.inUse[Batch], sure)
}

// batchShare is what batch calls may have of a number of permits: at least one, unless everything is reserved.
func batchShare(allowed int, reserve float64) int {
	if reserve >= 1 {
		return 0
	}
	return max(1, int(float64(allowed)*(1-reserve)))
}

// cutLocally lowers this replica's share while nobody else can be told: at most once per round trip. a.mu is held.
func (a *agent) cutLocally(f Feedback) {
	if !a.degraded || a.known == nil || !a.limit.Adaptive || !f.Sent.After(a.cutSeen) {
		return
	}
	a.known.Factor *= gentleCut
	a.known.Limits = a.known.Limits.times(gentleCut)
	a.cutSeen = a.deps.Clock.Now()
}

// untilStale is how long our permits are surely ours after a question was sent.
func (a *agent) untilStale() time.Duration { return a.cfg.TTL * 4 / 5 }
