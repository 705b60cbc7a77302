package orchestrator

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/store"
)

// backlog is what tenants have waiting, in their ring, and what was dealt of it.
type backlog struct {
	turns   turns
	names   []string
	weights map[string]int
	waiting map[string]int
	dealt   map[string]int
	// order are the tenants of the steps dealt, in order.
	order []string
}

func newBacklog() *backlog {
	return &backlog{weights: map[string]int{}, waiting: map[string]int{}, dealt: map[string]int{}}
}

func (b *backlog) tenant(name string, weight, steps int) {
	if b.weights[name] == 0 {
		b.names = append(b.names, name)
		slices.Sort(b.names)
	}
	b.weights[name], b.waiting[name] = weight, b.waiting[name]+steps
}

// ring is what a look finds that reads at most so many steps of a tenant.
func (b *backlog) ring(most int) []store.Waiting {
	var ring []store.Waiting
	for _, name := range b.names {
		if n := b.waiting[name]; n > 0 {
			steps := make([]store.Ref, min(n, most))
			for i := range steps {
				steps[i].Step = name
			}
			ring = append(ring, store.Waiting{Tenant: name, Weight: b.weights[name], Steps: steps, More: n > most})
		}
	}
	first := slices.IndexFunc(ring, func(w store.Waiting) bool { return w.Tenant > b.turns.done })
	if first < 0 {
		return ring
	}
	return append(ring[first:], ring[:first]...)
}

// deal deals so much room, looking anew as often as a tenant's known steps are dealt.
func (b *backlog) deal(room, most int) {
	for room > 0 {
		ring := b.ring(most)
		b.turns.keep(ring)
		steps, _, _ := b.turns.deal(ring, room)
		if len(steps) == 0 {
			return
		}
		for _, step := range steps {
			b.waiting[step.Step]--
			b.dealt[step.Step]++
			b.order = append(b.order, step.Step)
		}
		room -= len(steps)
	}
}

// While all have work, nobody's share is ever further from its weight than what one turn gives, however the room comes.
func TestSharesAreAsTheWeights(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		b := newBacklog()
		total, least := 0, math.MaxInt
		for i := range 2 + random.IntN(6) {
			weight := 1 + random.IntN(10)
			b.tenant("t"+strconv.Itoa(i), weight, 100_000)
			total, least = total+weight, min(least, weight)
		}
		for len(b.order) < 3000 {
			b.deal(1+random.IntN(40), 1+random.IntN(20))
		}
		for name, weight := range b.weights {
			due := float64(len(b.order)) * float64(weight) / float64(total)
			turn := float64(weight)/float64(least) + 1
			require.InDelta(t, due, b.dealt[name], turn+1, "seed %d: %s of weight %d", seed, name, weight)
		}
	}
}

// Whoever has work has a step dealt within a lap: before any other tenant has had two turns.
func TestNobodyWaitsLongerThanALap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 2))
		b := newBacklog()
		lap := 0
		for i := range 2 + random.IntN(8) {
			weight := 1 + random.IntN(5)
			b.tenant("t"+strconv.Itoa(i), weight, 10_000)
			lap += weight + 1
		}
		b.deal(random.IntN(500), 1+random.IntN(20))
		b.tenant("new", 1, 5)
		before := len(b.order)
		b.deal(lap+2, 1+random.IntN(20))
		require.Contains(t, b.order[before:], "new", "seed %d", seed)
	}
}

// A tenant that had no work for long has no claim to more than its share when it comes back.
func TestAnIdleTenantSavesNothingUp(t *testing.T) {
	t.Parallel()
	b := newBacklog()
	b.tenant("busy", 1, 100_000)
	b.tenant("idle", 3, 7)
	b.deal(1000, 16)
	require.Zero(t, b.waiting["idle"])
	b.tenant("idle", 3, 1000)
	before := b.dealt["idle"]
	b.deal(100, 16)
	require.InDelta(t, 75, b.dealt["idle"]-before, 3)
}

// Room goes to whoever has work: nobody's share is kept free for tenants that have none.
func TestAllRoomIsDealt(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 3))
		b := newBacklog()
		all := 0
		for i := range 1 + random.IntN(10) {
			steps := random.IntN(50)
			b.tenant("t"+strconv.Itoa(i), 1+random.IntN(1000), steps)
			all += steps
		}
		room := random.IntN(all + 20)
		b.deal(room, 1+random.IntN(20))
		require.Len(t, b.order, min(room, all), "seed %d", seed)
	}
}

// Tenants of equal weight get equal shares, whoever has the longer backlog: Jain's index of them is 0.95 at least.
func TestEqualTenantsGetEqualShares(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 4))
		b := newBacklog()
		tenants := 2 + random.IntN(20)
		for i := range tenants {
			b.tenant(fmt.Sprintf("t%02d", i), 7, 200+random.IntN(100_000))
		}
		b.deal(200*tenants, 1+random.IntN(30))
		var sum, squares float64
		for _, n := range b.dealt {
			sum, squares = sum+float64(n), squares+float64(n*n)
		}
		require.GreaterOrEqual(t, sum*sum/(float64(tenants)*squares), 0.95, "seed %d: %v", seed, b.dealt)
	}
}

// A turn that the end of the room has cut goes on where it was, and what is known of a tenant's steps is no bound of its turn.
func TestTurnsThatAreCutGoOn(t *testing.T) {
	t.Parallel()
	b := newBacklog()
	b.tenant("a", 4, 100)
	b.tenant("b", 1, 100)
	for range 20 {
		b.deal(1, 1)
	}
	require.Equal(t, []string{"a", "a", "a", "a", "b", "a", "a", "a", "a", "b"}, b.order[:10])
	require.Equal(t, map[string]int{"a": 16, "b": 4}, b.dealt)

	known := []store.Waiting{{Tenant: "a", Weight: 1, Steps: make([]store.Ref, 1), More: true}}
	var one turns
	steps, left, dry := one.deal(known, 2)
	require.Len(t, steps, 1)
	require.Len(t, left, 1)
	require.True(t, dry, "it has more, and nobody knows them yet")
	require.Len(t, known[0].Steps, 1, "the caller's list is as it was")
}
