package simulated

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// Latency is a time that is always the same, or drawn from a log-normal distribution, as the latencies of services are.
// Its text is "80ms", or "80ms~400ms" for a median and a 99th percentile.
type Latency struct {
	Median time.Duration
	P99    time.Duration // 0: always the median
}

// UnmarshalText reads the text of a Latency.
func (l *Latency) UnmarshalText(text []byte) error {
	median, p99, spread := strings.Cut(string(text), "~")
	var parsed Latency
	var err error
	if parsed.Median, err = time.ParseDuration(median); err == nil && spread {
		parsed.P99, err = time.ParseDuration(p99)
	}
	if err != nil || parsed.Median < 0 || spread && parsed.P99 < parsed.Median {
		return fmt.Errorf("%q is no latency: write a duration such as 80ms, or a median and a 99th percentile such as 80ms~400ms", text)
	}
	*l = parsed
	return nil
}

// MarshalText writes the text of a Latency.
func (l Latency) MarshalText() ([]byte, error) {
	if l.P99 == 0 {
		return []byte(l.Median.String()), nil
	}
	return []byte(l.Median.String() + "~" + l.P99.String()), nil
}

// normal99 is the 99th percentile of the standard normal distribution.
const normal99 = 2.326

// draw returns one latency; the same seeds give the same one.
func (l Latency) draw(seed, request uint64) time.Duration {
	if l.P99 <= l.Median || l.Median == 0 {
		return l.Median
	}
	spread := math.Log(float64(l.P99)/float64(l.Median)) / normal99
	z := rand.New(rand.NewPCG(seed, request)).NormFloat64()
	return time.Duration(float64(l.Median) * math.Exp(spread*z))
}
