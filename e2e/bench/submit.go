package bench

import (
	"context"
	"fmt"
	"net/http"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// submits measures how fast REST submits are answered at a steady rate, while the system executes what is submitted.
func (s *system) submits(ctx context.Context, path, body string, perSecond int, during time.Duration) (row, error) {
	var n int
	began := time.Now().UnixNano()
	target := func(t *vegeta.Target) error {
		n++
		*t = vegeta.Target{
			Method: http.MethodPost, URL: s.record.REST + path, Body: []byte(body),
			Header: http.Header{
				"Authorization": {"Bearer " + s.record.APIKey}, "Content-Type": {"application/json"},
				"Idempotency-Key": {fmt.Sprintf("bench-%d-%d", began, n)},
			},
		}
		return nil
	}
	attacker := vegeta.NewAttacker(vegeta.Timeout(10 * time.Second))
	var metrics vegeta.Metrics
	for result := range attacker.Attack(target, vegeta.Rate{Freq: perSecond, Per: time.Second}, during, path) {
		metrics.Add(result)
		if ctx.Err() != nil {
			attacker.Stop()
		}
	}
	metrics.Close()
	if metrics.StatusCodes["202"] != int(metrics.Requests) {
		return row{}, fmt.Errorf("POST %s: statuses %v, errors %v", path, metrics.StatusCodes, metrics.Errors)
	}
	l := metrics.Latencies
	return row{
		fmt.Sprintf("POST %s at %d/s: time to 202", path, perSecond),
		fmt.Sprintf("p50 %s, p95 %s, p99 %s, max %s", millis(l.P50), millis(l.P95), millis(l.P99), millis(l.Max)),
		fmt.Sprintf("%d requests", metrics.Requests),
	}, nil
}
