package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"pawl.internal/services/internal/pg"
	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store/db"
)

// mostKeys is how many keys of a tenant a look tries: where more wait, they take turns from look to look.
const mostKeys = 256

// Waiting are the steps of a tenant that may be dispatched, in the order in which they go: by priority, steps of runs that
// have begun, and age.
type Waiting struct {
	Tenant string
	// Weight is the tenant's share beside the others.
	Weight int
	Steps  []Ref
	// More says that more may go than these.
	More bool
}

// Look is what a look at the READY steps of a class has found.
type Look struct {
	// Tenants are those with steps that may go, in turn.
	Tenants []Waiting
	// All says that no tenant was left out.
	All bool
	// Capped says that steps were left out that caps hold back.
	Capped bool
}

// readyRow is a READY step. Those in no line have neither line nor limits.
type readyRow struct {
	Turn       int
	Line       string
	LineKey    string
	Holders    int
	RunID      uuid.UUID
	Step       string
	Shard      int32
	Generation int32
	Priority   int32
	Begun      bool
	ReadyAt    time.Time
	MaxSteps   int
	MaxRuns    int
}

// before orders the steps of a tenant.
func (r *readyRow) before(other *readyRow) int {
	return cmp.Or(cmp.Compare(other.Priority, r.Priority), compareTrue(other.Begun, r.Begun), r.ReadyAt.Compare(other.ReadyAt))
}

func compareTrue(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

// Ready looks at the READY steps of the class: of tenants beginning behind the one whose turn was last, about that many in
// all, which are shared out by weight. Caps that are used up leave steps out; whether one may really go is decided when it is
// dispatched.
func (s *Store) Ready(ctx context.Context, class machine.Class, behind string, most int, lines *Lines) (Look, error) {
	l := look{store: s, query: db.New(s.control), class: class, most: most, lines: lines}
	if err := l.findTenants(ctx, behind); err != nil {
		return Look{}, fmt.Errorf("find tenants that wait: %w", pg.Fault(err))
	}
	if err := l.findSteps(ctx); err != nil {
		return Look{}, fmt.Errorf("find ready steps: %w", pg.Fault(err))
	}
	return l.result(), nil
}

// look is one look at a class.
type look struct {
	store   *Store
	query   *db.Queries
	class   machine.Class
	most    int
	lines   *Lines
	tenants []waitingTenant
	// flight are the steps that count against caps; nil if nothing has asked for them.
	flight flight
	capped bool
}

type waitingTenant struct {
	Tenant string
	Lined  bool

	weight, share int
	rows          []readyRow
}

// findTenants finds the tenants that wait and have room under their caps.
func (l *look) findTenants(ctx context.Context, behind string) error {
	blocked := []string{}
	caps := l.store.capped()
	if len(caps) > 0 {
		if err := l.count(ctx); err != nil {
			return err
		}
		for tenant, most := range caps {
			if l.flight.ofTenant(tenant) >= most {
				blocked = append(blocked, tenant)
			}
		}
	}
	l.capped = len(blocked) > 0
	rows, err := l.store.control.Query(ctx, findWaitingTenants, behind, string(l.class), l.most, blocked)
	if err != nil {
		return err
	}
	l.tenants, err = pgx.CollectRows(rows, pgx.RowToStructByNameLax[waitingTenant])
	if err != nil {
		return err
	}
	total := 0
	for i := range l.tenants {
		l.tenants[i].weight = l.store.policy(l.tenants[i].Tenant).Weight
		total += l.tenants[i].weight
	}
	for i := range l.tenants {
		t := &l.tenants[i]
		t.share = (l.most*t.weight + total - 1) / total
	}
	return nil
}

// count reads the steps that count against caps, once.
func (l *look) count(ctx context.Context) (err error) {
	if l.flight == nil {
		l.flight, err = countFlight(ctx, l.query, []string{})
	}
	return err
}

// findSteps reads the steps that go next.
func (l *look) findSteps(ctx context.Context) error {
	if len(l.tenants) == 0 {
		return nil
	}
	p := db.FindReadyParams{Class: string(l.class)}
	lined := false
	for i, t := range l.tenants {
		p.Tenants, p.Turns, p.Shares = append(p.Tenants, t.Tenant), append(p.Turns, int32(i)), append(p.Shares, int32(t.share))
		lined = lined || t.Lined
	}
	rows, err := l.query.FindReady(ctx, p)
	if err != nil {
		return err
	}
	for _, row := range rows {
		t := &l.tenants[row.Turn]
		t.rows = append(t.rows, readyRow{
			RunID: row.RunID, Step: row.Step, Shard: row.Shard, Generation: row.Generation,
			Priority: row.Priority, Begun: row.Begun, ReadyAt: timeOr0(row.ReadyAt),
		})
	}
	if !lined {
		return nil
	}
	if err := l.count(ctx); err != nil {
		return err
	}
	return l.findLined(ctx)
}

// result is what of the steps may go.
func (l *look) result() Look {
	found := Look{All: len(l.tenants) < l.most}
	for i := range l.tenants {
		t := &l.tenants[i]
		slices.SortStableFunc(t.rows, func(a, b readyRow) int { return a.before(&b) })
		waiting, capped := l.within(t)
		l.capped = l.capped || capped
		if len(waiting.Steps) > 0 {
			found.Tenants = append(found.Tenants, waiting)
		}
	}
	found.Capped = l.capped
	return found
}
