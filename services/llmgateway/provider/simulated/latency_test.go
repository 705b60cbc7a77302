package simulated

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLatencyText(t *testing.T) {
	for text, want := range map[string]Latency{
		"80ms":       {Median: 80 * time.Millisecond},
		"80ms~400ms": {Median: 80 * time.Millisecond, P99: 400 * time.Millisecond},
		"0s":         {},
	} {
		var got Latency
		require.NoError(t, got.UnmarshalText([]byte(text)))
		require.Equal(t, want, got)
		again, err := got.MarshalText()
		require.NoError(t, err)
		require.Equal(t, text, string(again))
	}
}

func TestLatencyIsDrawnAsAsked(t *testing.T) {
	l := Latency{Median: 100 * time.Millisecond, P99: time.Second}
	drawn := make([]time.Duration, 20_000)
	for i := range drawn {
		drawn[i] = l.draw(7, uint64(i))
		require.Equal(t, drawn[i], l.draw(7, uint64(i)))
	}
	require.NotEqual(t, l.draw(7, 1), l.draw(8, 1))
	slices.Sort(drawn)
	require.InDelta(t, 0.1, drawn[len(drawn)/2].Seconds(), 0.005)
	require.InDelta(t, 1.0, drawn[len(drawn)*99/100].Seconds(), 0.1)
	require.Equal(t, time.Second, Latency{Median: time.Second}.draw(1, 2))
}
