package chaos

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"pawl.internal/e2e/harness"
)

// awaitPage waits until a page has the status.
func awaitPage(t *testing.T, url string, want int) {
	t.Helper()
	harness.Eventually(t, func() error {
		page, err := harness.Exchange(t.Context(), http.MethodGet, url, nil, nil)
		if err == nil && page.Status != want {
			err = fmt.Errorf("%s: %d %s", url, page.Status, page.Body)
		}
		return err
	})
}

// metric is the sum of a replica's metric over all series whose labels contain a text.
func metric(t *testing.T, of *harness.Replica, name, labels string) (sum float64, err error) {
	t.Helper()
	page, err := harness.Exchange(t.Context(), http.MethodGet, of.Admin+"/metrics", nil, nil)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(page.Body)) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if !strings.HasPrefix(series, name+"{") || !strings.Contains(series, labels) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", line, err)
		}
		sum += n
	}
	return sum, nil
}

// awaitMetric waits until a replica's metric is at least so much.
func awaitMetric(t *testing.T, of *harness.Replica, name, labels string, least float64) {
	t.Helper()
	harness.Eventually(t, func() error {
		n, err := metric(t, of, name, labels)
		if err == nil && n < least {
			err = fmt.Errorf("%s has %s{%s} at %v, not %v", of.Name, name, labels, n, least)
		}
		return err
	})
}
