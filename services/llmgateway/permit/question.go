package permit

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"
)

const (
	// syncTimeout bounds one question.
	syncTimeout = time.Second
	// mostNeeds is how many calls in line a question names at most, by class.
	mostNeeds = 64
	// mostFlows is how many tenants a question tells apart; the others count as one.
	mostFlows = 64
	// crowd is the tag of those others.
	crowd = "*"
	// blocks is the number of blocks that the ceiling is taken in when it is scarce, all replicas together.
	blocks = 8
)

// The script is one program in four parts.
var (
	//go:embed fair.lua
	fairScript string
	//go:embed bucket.lua
	bucketScript string
	//go:embed adapt.lua
	adaptScript string
	//go:embed sync.lua
	mainScript string
)

func syncScript() string { return fairScript + bucketScript + adaptScript + mainScript }

// question is what the script is asked. Lists are never nil: the script tells them from objects by that.
type question struct {
	Replica string `json:"id"`
	// TTL is in milliseconds, as all times.
	TTL int64 `json:"ttl"`
	// Alone is true when no other replica can hold a permit.
	Alone bool `json:"alone"`

	Concurrency int     `json:"concurrency"`
	Limits      amounts `json:"limits"`
	Rated       bool    `json:"rated"`
	Reserve     float64 `json:"reserve"`
	Floor       float64 `json:"floor"`
	Adaptive    bool    `json:"adaptive"`

	// Keep is what is kept in any case, and Want what there is use for, that included.
	Keep   [classes]int    `json:"keep"`
	Want   [classes]int    `json:"want"`
	Demand []demand        `json:"demand"`
	Needs  [classes][]call `json:"needs"`

	told
	// Knew is the last cut of the ceiling that this replica knows of.
	Knew float64 `json:"knew"`
	// Known is what this replica remembers of the group; nil before it has heard of it.
	Known *memory `json:"known,omitempty"`
	// Empty is true when the buckets may have been passed by.
	Empty bool `json:"empty"`

	// asks are the calls that Needs names.
	asks [classes][]*waiter
}

// demand is the calls of one flow, in flight and in line.
type demand struct {
	Class  int    `json:"c"`
	Tenant string `json:"t"`
	Calls  int    `json:"n"`
}

// call is what one call in line needs.
type call struct {
	Tenant string `json:"t"`
	Input  int64  `json:"i"`
	Output int64  `json:"o"`
}

// memory is what outlives Redis.
type memory struct {
	Epoch  float64 `json:"epoch"`
	Factor float64 `json:"f"`
	Hit    float64 `json:"hit"`
	Pause  int64   `json:"pause"`
}

// answer is what the script says. Its numbers may have been computed, so that all are read as such.
type answer struct {
	Held     [classes]float64 `json:"held"`
	Granted  [classes]float64 `json:"granted"`
	Share    [classes]float64 `json:"share"`
	Scarce   bool             `json:"scarce"`
	Wait     float64          `json:"wait"`
	Pause    float64          `json:"pause"`
	Closed   float64          `json:"closed"`
	Epoch    float64          `json:"epoch"`
	Factor   float64          `json:"f"`
	Hit      float64          `json:"hit"`
	Cut      float64          `json:"cut"`
	Ceiling  float64          `json:"ceiling"`
	InFlight float64          `json:"in_flight"`
	Levels   amounts          `json:"levels"`
	Limits   amounts          `json:"limits"`
}

// millis makes a duration of a number of the script's.
func millis(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }

// prepare decides what to ask for. What is not kept is not used any more from here on, since another replica may get it.
func (a *agent) prepare(last bool) question {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.deps.Clock.Now()
	if a.stale() {
		a.held = [classes]int{}
	}
	q := question{
		Replica: a.deps.Replica, TTL: a.cfg.TTL.Milliseconds(), Alone: a.known == nil && a.deps.Replicas() <= 1,
		Concurrency: a.limit.Concurrency, Limits: a.limit.perMinute(), Rated: a.limit.rated(),
		Reserve: a.limit.InteractiveReserve, Floor: a.limit.BatchFloor, Adaptive: a.limit.Adaptive,
		Demand: []demand{}, told: a.news.take(now, a.cutSeen), Empty: a.degraded,
	}
	if a.known != nil {
		q.Knew = a.known.Cut
		q.Known = &memory{Epoch: a.known.Epoch, Factor: a.factor(), Hit: a.known.Hit, Pause: max(0, a.pausedUntil.Sub(now).Milliseconds())}
	}
	held := a.held[Interactive] + a.held[Batch]
	for class := range Class(classes) {
		a.wish(&q, class, last)
	}
	a.trim(&q, max(held, a.busy()))
	a.held, a.peak = q.Keep, a.inUse
	if !last {
		q.Demand = a.demand()
	}
	return q
}

// wish is what is kept and wanted of one class: permits for the calls of this moment and, where they can be used again
// without asking, for as many as there were at the peak of the last one, unless others are short of permits. a.mu is held.
func (a *agent) wish(q *question, class Class, last bool) {
	line := &a.lines[class]
	want := a.inUse[class]
	if !last {
		want += line.size
	}
	if !last && !a.scarce && !a.limit.rated() {
		want = max(want, min(a.peak[class], a.held[class]))
	}
	keep := a.inUse[class]
	if !a.limit.rated() {
		keep = max(keep, min(a.held[class], a.share[class], want))
	}
	q.Keep[class], q.Want[class] = keep, max(want, keep)
	q.Needs[class] = []call{}
	if last || !a.limit.rated() {
		return
	}
	q.asks[class] = line.next(a.block())
	for _, w := range q.asks[class] {
		q.Needs[class] = append(q.Needs[class], call{tag(w.need.Tenant), w.need.Input, w.need.Output})
	}
}

// trim keeps no more than there is: calls may use permits of the other class, which that one cannot keep then. a.mu is held.
func (a *agent) trim(q *question, most int) {
	for class := range Class(classes) {
		over := max(0, q.Keep[Interactive]+q.Keep[Batch]-most)
		q.Keep[class] -= min(over, q.Keep[class]-a.inUse[class])
	}
}

// block is how many calls of a class a question names. a.mu is held.
func (a *agent) block() int {
	if a.known == nil || !a.scarce && !a.starved {
		return mostNeeds
	}
	ceiling := int(a.known.Ceiling)
	if ceiling == 0 {
		return mostNeeds
	}
	return min(mostNeeds, max(1, ceiling/blocks/max(1, a.deps.Replicas())))
}

// demand returns the flows that have calls, those with most first. a.mu is held.
func (a *agent) demand() []demand {
	calls := make(map[flow]int, len(a.users))
	for f, n := range a.users {
		calls[f] = n
	}
	for class := range Class(classes) {
		for _, queue := range a.lines[class].queues {
			calls[flow{class, queue.tenant}] += len(queue.waiters)
		}
	}
	list := make([]demand, 0, len(calls))
	for f, n := range calls {
		list = append(list, demand{Class: int(f.class) + 1, Tenant: tag(f.tenant), Calls: n})
	}
	if len(list) <= mostFlows {
		return list
	}
	slices.SortFunc(list, func(x, y demand) int { return cmp.Or(y.Calls-x.Calls, cmp.Compare(x.Tenant, y.Tenant)) })
	var rest [classes]int
	for _, d := range list[mostFlows:] {
		rest[d.Class-1] += d.Calls
	}
	list = list[:mostFlows]
	for class, n := range rest {
		if n > 0 {
			list = append(list, demand{Class: class + 1, Tenant: crowd, Calls: n})
		}
	}
	return list
}

// tag stands for a tenant in Redis.
func tag(tenant string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(tenant)) // never fails
	return strconv.FormatUint(h.Sum64(), 36)
}

// ask asks the script.
func (a *agent) ask(ctx context.Context, q question) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	text, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("ask for permits: %w", err)
	}
	reply, err := a.script.Run(ctx, a.deps.Redis, []string{a.key()}, text).Text()
	if err != nil {
		return nil, fmt.Errorf("ask for permits: %w", err)
	}
	got := &answer{}
	if err := json.Unmarshal([]byte(reply), got); err != nil {
		return nil, fmt.Errorf("ask for permits: the answer cannot be read: %w", err)
	}
	return got, nil
}
