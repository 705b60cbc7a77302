package tokens_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/llmgateway/tokens"
)

func TestTextsAreCutAsModelsDo(t *testing.T) {
	t.Parallel()
	var c tokens.Counter
	for text, want := range map[string]int64{
		"": 0, "hello": 1, "hello world": 2, "The supplier shall deliver the goods within thirty days.": 10,
	} {
		require.Equal(t, want, c.Count(text), "%q", text)
	}
	require.Equal(t, int64(3), c.Count("hello", "hello world"))
}

// What is longer than the sample is counted in proportion, without cutting a character.
func TestLongTextsAreCountedInProportion(t *testing.T) {
	t.Parallel()
	var c tokens.Counter
	sentence := "Поставщик обязуется передать товар в срок до 30 дней. "
	short := c.Count(strings.Repeat(sentence, 100))
	long := c.Count(strings.Repeat(sentence, 100_000))
	require.InEpsilon(t, float64(1000*short), float64(long), 0.01)
}

func TestManyCountAtOnce(t *testing.T) {
	t.Parallel()
	var c tokens.Counter
	var all sync.WaitGroup
	counts := make(chan int64, 8)
	for range 8 {
		all.Go(func() { counts <- c.Count("hello world") })
	}
	all.Wait()
	close(counts)
	for n := range counts {
		require.Equal(t, int64(2), n)
	}
}

func BenchmarkCount(b *testing.B) {
	var c tokens.Counter
	text := strings.Repeat("The supplier shall deliver the goods within thirty days. ", 1000)
	c.Count(text)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		c.Count(text)
	}
}
