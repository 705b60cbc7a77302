package permit_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pawl.internal/services/llmgateway/permit"
)

// script runs the script alone, on a server whose time is ours, and keeps the books of what it grants.
type script struct {
	t      *testing.T
	server *miniredis.Miniredis
	client *redis.Client
	now    time.Time
	limit  permit.Limit
	// admitted are the calls that were granted, in order.
	admitted []admission
	holders  []*holder
}

// admission is a call that was granted.
type admission struct {
	at     time.Time
	class  int
	tokens int64
}

// scriptCall is a call in line, as the script sees it.
type scriptCall struct {
	Tenant string `json:"t"`
	Input  int64  `json:"i"`
	Output int64  `json:"o"`
}

// holder is a replica as the script sees it: the calls in flight and in line, by class.
type holder struct {
	id      string
	inUse   [2]int
	line    [2][]scriptCall
	learned map[string]any
}

// scriptAnswer is what a test looks at of an answer.
type scriptAnswer struct {
	Held    [2]int     `json:"held"`
	Granted [2]int     `json:"granted"`
	Wait    float64    `json:"wait"`
	Closed  float64    `json:"closed"`
	Pause   float64    `json:"pause"`
	Factor  float64    `json:"f"`
	Ceiling int        `json:"ceiling"`
	Levels  [4]float64 `json:"levels"`
	Limits  [4]float64 `json:"limits"`
}

const scriptTTL = 2 * time.Second

func newScript(t *testing.T, replicas int, limit permit.Limit) *script {
	t.Helper()
	s := &script{t: t, server: miniredis.RunT(t), limit: limit, now: time.Unix(1_800_000_000, 0)}
	s.client = redis.NewClient(&redis.Options{Addr: s.server.Addr()})
	t.Cleanup(func() { _ = s.client.Close() })
	s.reset(replicas, limit)
	return s
}

// reset begins anew, with everything forgotten.
func (s *script) reset(replicas int, limit permit.Limit) {
	s.server.FlushAll()
	s.limit, s.admitted, s.holders = limit, nil, nil
	for i := range replicas {
		s.holders = append(s.holders, &holder{id: fmt.Sprint(i)})
	}
	s.advance(0)
}

func (s *script) advance(d time.Duration) {
	s.now = s.now.Add(d)
	s.server.SetTime(s.now)
}

func (s *script) rated() bool {
	return s.limit.Requests+s.limit.Tokens+s.limit.InputTokens+s.limit.OutputTokens > 0
}

// ask asks for all calls in line; those that are granted leave it.
func (s *script) ask(h *holder) scriptAnswer {
	l := s.limit
	var none [4]int
	q := map[string]any{
		"id": h.id, "ttl": scriptTTL.Milliseconds(), "alone": false, "concurrency": l.Concurrency, "rated": s.rated(),
		"limits": [4]int64{l.Requests, l.Tokens, l.InputTokens, l.OutputTokens}, "reserve": l.InteractiveReserve,
		"floor": l.BatchFloor, "adaptive": l.Adaptive, "keep": h.inUse, "empty": false, "back": none, "batch_back": none,
		"want": [2]int{h.inUse[0] + len(h.line[0]), h.inUse[1] + len(h.line[1])}, "used": none, "ok": 0, "bad": 0, "fresh": 0,
		"counts": false, "knew": 0, "slow": false, "pause": 0, "told": none, "left": [4]int{-1, -1, -1, -1},
	}
	demand, needs := []map[string]any{}, [2][]scriptCall{{}, {}}
	for class := range 2 {
		needs[class] = append(needs[class], h.line[class]...)
		if n := h.inUse[class] + len(h.line[class]); n > 0 {
			demand = append(demand, map[string]any{"c": class + 1, "t": "tenant of " + h.id, "n": n})
		}
	}
	q["demand"], q["needs"] = demand, needs
	for name, value := range h.learned {
		q[name] = value
	}
	h.learned = nil
	text, err := json.Marshal(q)
	require.NoError(s.t, err)
	answer, err := s.client.Eval(s.t.Context(), permit.SyncScript(), []string{"p:permits:{g}"}, text).Text()
	require.NoError(s.t, err)
	var a scriptAnswer
	require.NoError(s.t, json.Unmarshal([]byte(answer), &a))
	s.book(h, a)
	return a
}

// book moves the calls that were granted from the line to those in flight.
func (s *script) book(h *holder, a scriptAnswer) {
	for class := range 2 {
		granted := a.Held[class] - h.inUse[class]
		for _, c := range h.line[class][:granted] {
			s.admitted = append(s.admitted, admission{s.now, class, c.Input + c.Output})
		}
		h.line[class] = h.line[class][granted:]
		h.inUse[class] = a.Held[class]
	}
}

// most returns the most requests and tokens that any 60 seconds saw.
func (s *script) most() (requests int, tokens int64) {
	first, sum := 0, int64(0)
	for i, a := range s.admitted {
		sum += a.tokens
		for a.at.Sub(s.admitted[first].at) >= time.Minute {
			sum -= s.admitted[first].tokens
			first++
		}
		requests, tokens = max(requests, i-first+1), max(tokens, sum)
	}
	return requests, tokens
}

// open waits until permits are given out.
func (s *script) open() {
	s.askAll()
	s.advance(scriptTTL)
	s.askAll()
}

func (s *script) askAll() {
	for _, h := range s.holders {
		s.ask(h)
	}
}

// Sixty calls of 500 tokens over three replicas, and a limit of 10 000 tokens a minute: no minute sees more than twenty.
func TestTokensPerMinuteHoldOverAllReplicas(t *testing.T) {
	t.Parallel()
	s := newScript(t, 3, permit.Limit{Concurrency: 64, Tokens: 10_000})
	for i := range 60 {
		h := s.holders[i%3]
		h.line[0] = append(h.line[0], scriptCall{"a", 400, 100})
	}
	began := s.now
	for len(s.admitted) < 60 {
		for _, h := range s.holders {
			s.ask(h)
			h.inUse = [2]int{}
		}
		s.advance(400 * time.Millisecond)
	}
	requests, tokens := s.most()
	require.LessOrEqual(t, requests, 20)
	require.LessOrEqual(t, tokens, int64(10_000))
	require.Less(t, s.now.Sub(began), 3*time.Minute+40*time.Second, "and nine tenths of the limit are used")
}

// Whatever comes in whatever order, no limit is passed.
func TestNoScheduleBreaksALimit(t *testing.T) {
	t.Parallel()
	s := newScript(t, 1, permit.Limit{})
	rapid.Check(t, func(t *rapid.T) {
		limit := permit.Limit{
			Concurrency:        rapid.IntRange(1, 12).Draw(t, "concurrency"),
			Requests:           rapid.SampledFrom([]int64{0, 1, 7, 30, 300}).Draw(t, "requests"),
			Tokens:             rapid.SampledFrom([]int64{0, 1000, 10_000}).Draw(t, "tokens"),
			InteractiveReserve: rapid.SampledFrom([]float64{0, 0.2, 0.5}).Draw(t, "reserve"),
			BatchFloor:         rapid.SampledFrom([]float64{0, 0.05, 0.3}).Draw(t, "floor"),
		}
		s.reset(rapid.IntRange(1, 3).Draw(t, "replicas"), limit)
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			s.step(t)
			s.check(t)
		}
	})
}

// step does one thing that may happen.
func (s *script) step(t *rapid.T) {
	h := rapid.SampledFrom(s.holders).Draw(t, "replica")
	class := rapid.IntRange(0, 1).Draw(t, "class")
	switch rapid.SampledFrom([]string{"call", "call", "call", "ask", "end", "wait", "wait", "forget"}).Draw(t, "what") {
	case "call":
		for range rapid.IntRange(1, 5).Draw(t, "calls") {
			h.line[class] = append(h.line[class], scriptCall{"x", rapid.Int64Range(0, max(0, s.limit.Tokens/10)).Draw(t, "tokens"), 0})
		}
	case "ask":
		s.ask(h)
	case "end":
		h.inUse[class] = max(0, h.inUse[class]-1)
	case "wait": // all show that they live
		for range rapid.SampledFrom([]int{1, 2, 12}).Draw(t, "halves of a second") {
			s.advance(500 * time.Millisecond)
			s.askAll()
		}
	case "forget":
		s.server.FlushAll()
		s.askAll() // all speak before it opens again
	}
}

// check compares what is in flight, and what was admitted in any minute, with the limits.
func (s *script) check(t *rapid.T) {
	var inFlight, batch int
	for _, h := range s.holders {
		inFlight += h.inUse[0] + h.inUse[1]
		batch += h.inUse[1]
	}
	require.LessOrEqual(t, inFlight, s.limit.Concurrency)
	forBatch := max(1, int(math.Floor(float64(s.limit.Concurrency)*(1-s.limit.InteractiveReserve)+1e-6)))
	require.LessOrEqual(t, batch, forBatch)
	requests, tokens := s.most()
	if s.limit.Requests > 0 {
		require.LessOrEqual(t, int64(requests), s.limit.Requests)
	}
	if s.limit.Tokens > 0 {
		require.LessOrEqual(t, tokens, s.limit.Tokens)
	}
}

// A greedy tenant of one replica gets no more than the others: two have theirs on another replica.
func TestTheBucketsAreSharedByTenant(t *testing.T) {
	t.Parallel()
	s := newScript(t, 2, permit.Limit{Concurrency: 100, Requests: 600})
	s.open()
	had := map[string]int{}
	for range 200 {
		for i, tenants := range [][]string{{"greedy"}, {"modest", "humble"}} {
			h := s.holders[i]
			h.inUse = [2]int{}
			for len(h.line[0]) < 20 {
				for _, name := range tenants {
					h.line[0] = append(h.line[0], scriptCall{Tenant: name})
				}
			}
			line := h.line[0]
			s.ask(h)
			for _, c := range line[:len(line)-len(h.line[0])] {
				had[c.Tenant]++
			}
		}
		s.advance(300 * time.Millisecond)
	}
	require.InDelta(t, 180, had["greedy"], 10, "%v", had)
	require.InDelta(t, 180, had["modest"], 10, "%v", had)
	require.InDelta(t, 180, had["humble"], 10, "%v", had)
}

// Interactive calls take everything but the floor, and batch calls never the reserve.
func TestBatchCallsHaveAFloorAndInteractiveOnesAReserve(t *testing.T) {
	t.Parallel()
	s := newScript(t, 2, permit.Limit{Concurrency: 100, Requests: 600, InteractiveReserve: 0.25, BatchFloor: 0.1})
	s.open()
	count := func(interactive bool) (had [2]int) {
		before := len(s.admitted)
		for range 200 {
			for class, h := range s.holders {
				h.inUse = [2]int{}
				for len(h.line[class]) < 10 && (class == 1 || interactive) {
					h.line[class] = append(h.line[class], scriptCall{Tenant: "x"})
				}
				s.ask(h)
			}
			s.advance(300 * time.Millisecond)
		}
		for _, a := range s.admitted[before:] {
			had[a.class]++
		}
		return had
	}
	had := count(true)
	require.InDelta(t, 54, had[1], 8, "%v: a tenth", had)
	require.InDelta(t, 540-54, had[0], 20, "%v: the rest", had)
	s.holders[0].line[0] = nil
	had = count(false)
	require.InDelta(t, 405, had[1], 60, "%v: three quarters", had)
}

// A call that is larger than the bucket is admitted when that is full, and is not passed by meanwhile.
func TestALargeCallBorrowsAndIsNotPassedBy(t *testing.T) {
	t.Parallel()
	s := newScript(t, 2, permit.Limit{Concurrency: 100, Tokens: 6000})
	s.open()
	large, small := s.holders[0], s.holders[1]
	large.line[0] = []scriptCall{{"a", 3000, 0}}
	s.ask(large)
	for i := range 20 {
		small.line[0] = append(small.line[0], scriptCall{"b", int64(10 + i), 0})
	}
	for range 80 {
		s.ask(small)
		require.Empty(t, s.admitted)
		if a := s.ask(large); len(s.admitted) == 1 {
			require.InDelta(t, 600-3000, a.Levels[1], 10)
			return
		}
		s.advance(100 * time.Millisecond)
	}
	t.Fatal("it was never admitted")
}

// What a provider says is left empties the bucket at once, and a lower limit than ours is believed.
func TestHeadersCorrectTheBuckets(t *testing.T) {
	t.Parallel()
	s := newScript(t, 1, permit.Limit{Concurrency: 100, Requests: 6000})
	s.open()
	h := s.holders[0]
	s.advance(time.Second)
	require.InDelta(t, 90, s.ask(h).Levels[0], 1)
	h.learned = map[string]any{"left": []int{5, -1, -1, -1}, "told": []int{3000, 0, 0, 0}}
	a := s.ask(h)
	require.InDelta(t, 5, a.Levels[0], 0.1)
	require.InDelta(t, 3000, a.Limits[0], 0.1)
	h.learned = map[string]any{"told": []int{4000, 0, 0, 0}}
	require.InDelta(t, 3000, s.ask(h).Limits[0], 0.1, "perhaps of another model of the account")
	for range 70 {
		s.advance(time.Second)
		s.ask(h)
	}
	h.learned = map[string]any{"told": []int{9000, 0, 0, 0}}
	require.InDelta(t, 6000, s.ask(h).Limits[0], 0.1, "never above the configuration")
}

// What replicas remember outlives Redis: the ceiling and a pause.
func TestWhatWasLearnedOutlivesRedis(t *testing.T) {
	t.Parallel()
	s := newScript(t, 2, permit.Limit{Concurrency: 100, Adaptive: true})
	s.open()
	s.server.FlushAll()
	s.ask(s.holders[0])
	s.holders[1].learned = map[string]any{"known": map[string]any{"epoch": 1, "f": 0.5, "hit": 0.6, "pause": 10_000}}
	a := s.ask(s.holders[1])
	require.InDelta(t, 0.5, a.Factor, 1e-9)
	require.Equal(t, 50, a.Ceiling)
	require.InDelta(t, 10_000, a.Pause, 1)
	s.holders[0].line[0] = []scriptCall{{Tenant: "a"}}
	s.advance(scriptTTL)
	s.ask(s.holders[1])
	s.ask(s.holders[0])
	require.Empty(t, s.admitted, "the pause holds for all")
}
