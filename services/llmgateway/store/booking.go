package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"pawl.internal/services/internal/money"
	"pawl.internal/services/llmgateway/price"
	"pawl.internal/services/llmgateway/store/db"
)

// BudgetKind says what a budget beyond a run's holds for.
type BudgetKind string

// The kinds of budgets.
const (
	// TenantMonth is a tenant's calendar month, in UTC; its id is the tenant.
	TenantMonth BudgetKind = "tenant_month"
	// BatchBudget is a batch's whole life; its id is the batch's UUID.
	BatchBudget BudgetKind = "batch"
)

// bookings are what a group adds to spend_day and spend_sum. A request's part of them is the difference between what it is
// now and what is booked of it already, so that the sums follow the log through every correction.
type bookings struct {
	holder uuid.UUID
	lane   int32
	days   map[dayKey]*dayBooking
	sums   map[sumKey]money.Pico
	// marked are requests that were settled before, and whose cost is booked now.
	marked db.MarkBookedParams
}

func newBookings(holder uuid.UUID, lane int) *bookings {
	return &bookings{holder: holder, lane: int32(lane), days: map[dayKey]*dayBooking{}, sums: map[sumKey]money.Pico{}}
}

type dayKey struct {
	tenant                         string
	day                            time.Time
	origin, provider, model, class string
}

type dayBooking struct {
	calls, answered, unpriced int64
	usage                     price.Usage
	cost                      money.Pico
}

type sumKey struct {
	kind   BudgetKind
	id     string
	period time.Time
}

// book books what a request comes to with the outcome.
func (b *bookings) book(at time.Time, p *purse, c *call, t *try, o Outcome) {
	d := b.day(at, p, c, t)
	if t.booked != nil {
		d.add(t.state, t.basis, t.usage, *t.booked, -1)
	}
	d.add(o.State, o.Basis, o.Usage, o.Cost, 1)
	difference := o.Cost
	if t.booked != nil {
		difference -= *t.booked
	}
	b.sum(at, p, difference)
	t.booked, t.basis, t.usage, t.settledAt = &o.Cost, o.Basis, o.Usage, at
}

// mark books what a request has cost that somebody else has settled, on the day on which it was.
func (b *bookings) mark(p *purse, c *call, t *try) {
	b.book(t.settledAt, p, c, t, Outcome{State: t.state, Basis: t.basis, Usage: t.usage, Cost: t.cost})
	b.marked.RunIds = append(b.marked.RunIds, c.key.RunID)
	b.marked.CallKeys = append(b.marked.CallKeys, c.key.Digest[:])
	b.marked.TryNos = append(b.marked.TryNos, t.no)
}

// day returns the row that the request counts toward.
func (b *bookings) day(at time.Time, p *purse, c *call, t *try) *dayBooking {
	model, _, _ := strings.Cut(t.model, "?") // what follows are faults of a simulated one
	key := dayKey{
		tenant: p.tenant, day: at.UTC().Truncate(24 * time.Hour), origin: c.origin, provider: t.provider, model: model, class: c.class,
	}
	if b.days[key] == nil {
		b.days[key] = &dayBooking{}
	}
	return b.days[key]
}

// sum adds to the sums that budgets are held against.
func (b *bookings) sum(at time.Time, p *purse, amount money.Pico) {
	if amount == 0 {
		return
	}
	at = at.UTC()
	b.sums[sumKey{TenantMonth, p.tenant, time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)}] += amount
	if p.batch != uuid.Nil {
		b.sums[sumKey{BatchBudget, p.batch.String(), time.Unix(0, 0).UTC()}] += amount
	}
}

// add adds a request as it is, times sign.
func (d *dayBooking) add(state TryState, basis Basis, u price.Usage, cost money.Pico, sign int64) {
	if state == TryAnswered || state == TryFailed || state == TryAmbiguous || state == TryCancelled {
		d.calls += sign
	}
	if state == TryAnswered {
		d.answered += sign
	}
	if basis == Unpriced {
		d.unpriced += sign
	}
	d.usage.Input += sign * u.Input
	d.usage.CachedInput += sign * u.CachedInput
	d.usage.CacheWrite += sign * u.CacheWrite
	d.usage.CacheWrite1h += sign * u.CacheWrite1h
	d.usage.Output += sign * u.Output
	d.usage.Reasoning += sign * u.Reasoning
	d.cost += money.Pico(sign) * cost
}

// writeBookings adds the bookings to the tables, in one order everywhere: others may have the same rows.
func (g *group) writeBookings(ctx context.Context) error {
	b := g.bookings
	if err := b.writeDays(ctx, g.query); err != nil {
		return err
	}
	if err := b.writeSums(ctx, g.query); err != nil {
		return err
	}
	if len(b.marked.RunIds) == 0 {
		return nil
	}
	b.marked.LeastID, b.marked.MostID = g.least, g.most
	if err := g.query.MarkBooked(ctx, b.marked); err != nil {
		return err
	}
	g.pipe.Expect(len(b.marked.RunIds), "mark requests as booked")
	return nil
}

func (b *bookings) writeDays(ctx context.Context, query *db.Queries) error {
	rows := db.BookDaysParams{Holder: b.holder, Lane: b.lane}
	for _, k := range sortedKeys(b.days, compareDays) {
		d := b.days[k]
		if *d == (dayBooking{}) {
			continue
		}
		rows.Days, rows.Tenants, rows.Origins = append(rows.Days, date(k.day)), append(rows.Tenants, k.tenant), append(rows.Origins, k.origin)
		rows.Providers, rows.Models = append(rows.Providers, k.provider), append(rows.Models, k.model)
		rows.Classes, rows.Calls = append(rows.Classes, k.class), append(rows.Calls, d.calls)
		rows.Answered, rows.Unpriced = append(rows.Answered, d.answered), append(rows.Unpriced, d.unpriced)
		rows.InputTokens = append(rows.InputTokens, d.usage.Input)
		rows.CachedInputTokens = append(rows.CachedInputTokens, d.usage.CachedInput)
		rows.CacheWriteTokens = append(rows.CacheWriteTokens, d.usage.CacheWrite)
		rows.CacheWrite1hTokens = append(rows.CacheWrite1hTokens, d.usage.CacheWrite1h)
		rows.OutputTokens = append(rows.OutputTokens, d.usage.Output)
		rows.ReasoningTokens = append(rows.ReasoningTokens, d.usage.Reasoning)
		rows.Costs = append(rows.Costs, d.cost)
	}
	if len(rows.Days) == 0 {
		return nil
	}
	return query.BookDays(ctx, rows)
}

func (b *bookings) writeSums(ctx context.Context, query *db.Queries) error {
	rows := db.BookSumsParams{Holder: b.holder, Lane: b.lane}
	for _, k := range sortedKeys(b.sums, compareSums) {
		rows.Kinds, rows.Ids = append(rows.Kinds, string(k.kind)), append(rows.Ids, k.id)
		rows.Periods, rows.Costs = append(rows.Periods, date(k.period)), append(rows.Costs, b.sums[k])
	}
	if len(rows.Ids) == 0 {
		return nil
	}
	return query.BookSums(ctx, rows)
}

func date(day time.Time) pgtype.Date { return pgtype.Date{Time: day, Valid: true} }

func sortedKeys[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compare)
	return keys
}

func compareDays(a, b dayKey) int {
	return cmp.Or(
		cmp.Compare(a.tenant, b.tenant), a.day.Compare(b.day), cmp.Compare(a.origin, b.origin), cmp.Compare(a.provider, b.provider),
		cmp.Compare(a.model, b.model), cmp.Compare(a.class, b.class),
	)
}

func compareSums(a, b sumKey) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id), a.period.Compare(b.period))
}

// Book books the requests of a call that were settled by a gateway which knows no spend_day.
type Book struct{ Key Key }

func (b *Book) key() Key         { return b.Key }
func (b *Book) purse() *newPurse { return nil }
func (b *Book) size() int        { return 0 }

func (b *Book) apply(g *group) {
	p, c := g.purses[b.Key.RunID], g.calls[b.Key]
	if p == nil || c == nil {
		return
	}
	for _, t := range c.tries {
		if t.state != TryInFlight && (t.booked == nil || *t.booked != t.cost) {
			g.bookings.mark(p, c, t)
		}
	}
}
