package store

import (
	"context"

	"github.com/google/uuid"

	"pawl.internal/services/orchestrator/store/db"
)

// flight counts the steps that are dispatched, not finished, and count against caps: by tenant, and then by the pipeline in
// whose line they were; those that only the tenant's cap concerns are under the empty name.
type flight map[string]map[string]int

// countFlight counts them for some tenants; for all without any.
func countFlight(ctx context.Context, q *db.Queries, tenants []string) (flight, error) {
	rows, err := q.CountFlight(ctx, tenants)
	if err != nil {
		return nil, err
	}
	f := flight{}
	for _, row := range rows {
		if f[row.Tenant] == nil {
			f[row.Tenant] = map[string]int{}
		}
		f[row.Tenant][row.Line] = int(row.N)
	}
	return f, nil
}

func (f flight) ofTenant(tenant string) (n int) {
	for _, inLine := range f[tenant] {
		n += inLine
	}
	return n
}

// demand is what a step must find room under.
type demand struct {
	lineKey
	run uuid.UUID
	// maxSteps and maxRuns are the limits of the line and of its key; 0 for none. Holders are the runs that count against the
	// key's already.
	maxSteps, maxRuns, holders int
}

// allowance is the room under the caps of one tenant.
type allowance struct {
	// most is the tenant's cap, 0 for none, and used what counts against it.
	most, used int
	lines      map[string]int
	// seats are the runs that were let through by their key.
	seats map[lineKey]map[uuid.UUID]bool
}

// newAllowance returns the room that what is in flight of the tenant leaves.
func newAllowance(inFlight map[string]int, most int) *allowance {
	a := &allowance{most: most, lines: map[string]int{}, seats: map[lineKey]map[uuid.UUID]bool{}}
	for line, n := range inFlight {
		a.lines[line] = n
		a.used += n
	}
	return a
}

// take takes room for one step, if there is.
func (a *allowance) take(d demand) bool {
	if a.most > 0 && a.used >= a.most || d.maxSteps > 0 && a.lines[d.line] >= d.maxSteps {
		return false
	}
	if d.key != "" && !a.seat(d) {
		return false
	}
	a.used++
	a.lines[d.line]++
	return true
}

// seat lets the run through by its key, if it is not too many.
func (a *allowance) seat(d demand) bool {
	seated := a.seats[d.lineKey]
	switch {
	case seated[d.run]:
		return true
	case d.holders+len(seated) >= d.maxRuns:
		return false
	case seated == nil:
		seated = map[uuid.UUID]bool{}
		a.seats[d.lineKey] = seated
	}
	seated[d.run] = true
	return true
}
