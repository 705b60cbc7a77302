package permit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	lua "github.com/yuin/gopher-lua"

	"pawl.internal/services/llmgateway/permit"
)

// model is a client with the adaptive ceiling of adapt.lua, and a provider, in simulated time: no Redis, no clock. Its limits
// are those that the client is configured with; the provider has limits of its own.
type model struct {
	t     *testing.T
	lua   *lua.LState
	learn lua.LValue
	state *lua.LTable

	concurrency int     // configured
	perMinute   float64 // configured requests per minute; 0 for none
	admits      func(m *model) bool
	latency     float64 // of an answer, in milliseconds

	now      float64
	began    float64
	random   *rand.Rand
	level    float64 // of the client's bucket
	pause    float64
	inFlight int
	running  int       // at the provider
	accepted []float64 // times, at the provider
	pending  []reply
	answered []float64
	attempts int

	ceilings []float64 // the factor at each second
}

// reply is an answer on its way.
type reply struct {
	at, sent float64
	limited  bool
}

func newModel(t *testing.T, concurrency int, perMinute float64, admits func(*model) bool) *model {
	t.Helper()
	m := &model{
		t: t, lua: lua.NewState(), concurrency: concurrency, perMinute: perMinute, admits: admits, latency: 1000,
		random: rand.New(rand.NewPCG(1, 2)), now: 1e6, began: 1e6,
	}
	t.Cleanup(m.lua.Close)
	require.NoError(t, m.lua.DoString(permit.AdaptScript()+"\nreturn learn, newborn()"))
	m.learn = m.lua.Get(-2)
	state, ok := m.lua.Get(-1).(*lua.LTable)
	require.True(t, ok)
	m.state = state
	return m
}

func (m *model) factor() float64 { return float64(lua.LVAsNumber(m.state.RawGetString("f"))) }

func (m *model) ceiling() int { return max(1, int(m.factor()*float64(m.concurrency)+1e-6)) }

// tick is one step of 10 ms.
func (m *model) tick() {
	const step = 10
	m.now += step
	limit := m.perMinute * m.factor()
	m.level = min(max(1, limit/10), m.level+0.9*limit*step/60000)
	m.receive()
	for m.inFlight < m.ceiling() && m.now >= m.pause && (m.perMinute == 0 || m.level >= 1) {
		m.send()
	}
}

func (m *model) send() {
	m.level--
	m.inFlight++
	m.attempts++
	r := reply{at: m.now + 30, sent: m.now, limited: !m.admits(m)}
	if !r.limited {
		r.at = m.now + m.latency*(0.5+m.random.Float64())
		m.running++
		m.accepted = append(m.accepted, m.now)
	}
	m.pending = append(m.pending, r)
}

// receive takes over all answers that have come.
func (m *model) receive() {
	cut := float64(lua.LVAsNumber(m.state.RawGetString("cut")))
	var ok, bad, fresh int
	newest := 0.0
	m.pending = slices.DeleteFunc(m.pending, func(r reply) bool {
		switch {
		case r.at > m.now:
			return false
		case r.limited:
			bad++
			newest = max(newest, r.sent)
		default:
			ok++
			m.running--
			m.answered = append(m.answered, m.now)
			if r.sent > cut {
				fresh++
			}
		}
		m.inFlight--
		return true
	})
	if ok+bad == 0 {
		return
	}
	x := m.lua.NewTable()
	for name, value := range map[string]float64{
		"now": m.now, "ok": float64(ok), "bad": float64(bad), "fresh": float64(fresh),
		"unit": float64(m.concurrency), "least": 1 / max(float64(m.concurrency), m.perMinute), "delivered": m.delivered(),
	} {
		x.RawSetString(name, lua.LNumber(value))
	}
	x.RawSetString("counts", lua.LBool(newest > cut))
	x.RawSetString("rated", lua.LBool(m.perMinute > 0))
	x.RawSetString("whole", lua.LBool(m.now > m.began+60000))
	x.RawSetString("busy", lua.LTrue)
	require.NoError(m.t, m.lua.CallByParam(lua.P{Fn: m.learn, NRet: 1, Protect: true}, m.state, x))
	m.pause = max(m.pause, m.now+float64(lua.LVAsNumber(m.lua.Get(-1))))
	m.lua.Pop(1)
}

// delivered is the share of the configured limit that was answered in the last minute.
func (m *model) delivered() float64 {
	if m.perMinute == 0 {
		return 0
	}
	for len(m.answered) > 0 && m.answered[0] <= m.now-60000 {
		m.answered = m.answered[1:]
	}
	return min(1, float64(len(m.answered))/m.perMinute)
}

// run simulates so many minutes, with unlimited demand; it returns the attempts per answer.
func (m *model) run(minutes int) float64 {
	total := 0
	for i := range minutes * 60 * 100 {
		before := len(m.answered)
		m.tick()
		total += max(0, len(m.answered)-before)
		if i%100 == 0 {
			m.ceilings = append(m.ceilings, m.factor())
		}
	}
	return float64(m.attempts) / float64(len(m.accepted))
}

// sliding admits so many requests in any 60 seconds.
func sliding(perMinute int) func(*model) bool {
	return func(m *model) bool {
		first := len(m.accepted) - perMinute
		return first < 0 || m.accepted[first] <= m.now-60000
	}
}

// bucketOf admits so many requests per minute, and as many at once as its depth.
func bucketOf(perMinute, depth float64) func(*model) bool {
	level, last := depth, 0.0
	return func(m *model) bool {
		if last > 0 {
			level = min(depth, level+perMinute*(m.now-last)/60000)
		}
		last = m.now
		if level < 1 {
			return false
		}
		level--
		return true
	}
}

// A provider that enforces half of what we are configured with, in whatever way.
func TestTheCeilingFindsHalfOfTheLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		concurrency int
		perMinute   float64
		admits      func(*model) bool
	}{
		"concurrency":                  {64, 0, func(m *model) bool { return m.running < 32 }},
		"small concurrency":            {16, 0, func(m *model) bool { return m.running < 8 }},
		"concurrency below rates":      {64, 60000, func(m *model) bool { return m.running < 32 }},
		"requests in any minute":       {64, 1200, sliding(600)},
		"requests, as a deep bucket":   {64, 1200, bucketOf(600, 600)},
		"requests, as a bucket of 10s": {64, 1200, bucketOf(600, 100)},
		"requests, as a flat bucket":   {64, 1200, bucketOf(600, 5)},
		"many requests in any minute":  {256, 6000, sliding(3000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, c.concurrency, c.perMinute, c.admits)
			attempts := m.run(15)
			settled := m.ceilings[3*60:]
			low, high := slices.Min(settled), slices.Max(settled)
			within := 0
			for _, f := range settled {
				if math.Abs(f-0.5) <= 0.15*0.5+1e-9 {
					within++
				}
			}
			share := float64(within) / float64(len(settled))
			story := fmt.Sprintf("factor %.3f to %.3f, within 15%% for %.0f%% of the time, %.3f attempts an answer", low, high, 100*share, attempts)
			t.Log(story)
			require.Less(t, attempts, 1.3, story)
			require.GreaterOrEqual(t, share, 0.9, story)
		})
	}
}
