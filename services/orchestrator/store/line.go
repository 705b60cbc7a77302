package store

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// lineKey names a line of a tenant: the steps of a pipeline with caps, or those of its runs of one key. The zero lineKey are
// the steps that are in none.
type lineKey struct{ line, key string }

// Lines remembers which of a tenant's keys were looked at, so that all have their turn. It belongs to one class.
type Lines struct {
	behind map[string]lineKey
}

// from returns the line behind which the next look at the tenant's keys begins.
func (l *Lines) from(tenant string) lineKey {
	if behind, has := l.behind[tenant]; has {
		return behind
	}
	return lineKey{line: "\x7f"} // behind all lines without a key: names of pipelines are lower-case ASCII
}

// looked notes which lines of keys a look has found.
func (l *Lines) looked(tenant string, keyed []lineKey) {
	if len(keyed) < mostKeys { // they were the last
		delete(l.behind, tenant)
		return
	}
	if l.behind == nil {
		l.behind = map[string]lineKey{}
	}
	l.behind[tenant] = slices.MaxFunc(keyed, func(a, b lineKey) int {
		return cmp.Or(strings.Compare(a.key, b.key), strings.Compare(a.line, b.line))
	})
}

// findLined adds the steps at the heads of the tenants' lines.
func (l *look) findLined(ctx context.Context) error {
	var tenants, keys, lines []string
	var turns, shares []int32
	for i := range l.tenants {
		if t := &l.tenants[i]; t.Lined {
			from := l.lines.from(t.Tenant)
			tenants, turns, shares = append(tenants, t.Tenant), append(turns, int32(i)), append(shares, int32(t.share))
			keys, lines = append(keys, from.key), append(lines, from.line)
		}
	}
	rows, err := l.store.control.Query(ctx, findLined, tenants, turns, shares, keys, lines, string(l.class), mostKeys)
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[readyRow])
	if err != nil {
		return err
	}
	keyed := map[int][]lineKey{}
	for _, row := range found {
		t := &l.tenants[row.Turn]
		t.rows = append(t.rows, row)
		if k := row.lineKey(); k.key != "" && !slices.Contains(keyed[row.Turn], k) {
			keyed[row.Turn] = append(keyed[row.Turn], k)
		}
	}
	for i := range l.tenants {
		if l.tenants[i].Lined {
			l.lines.looked(l.tenants[i].Tenant, keyed[i])
		}
	}
	return nil
}

func (r *readyRow) lineKey() lineKey { return lineKey{r.Line, r.LineKey} }

// within returns the tenant's steps that its caps and those of its pipelines leave room for, and whether others were left
// out.
func (l *look) within(t *waitingTenant) (w Waiting, capped bool) {
	w = Waiting{Tenant: t.Tenant, Weight: t.weight}
	room := newAllowance(l.flight[t.Tenant], l.store.policy(t.Tenant).MaxSteps)
	rows, refused := map[lineKey]int{}, map[lineKey]bool{}
	for i := range t.rows {
		row := &t.rows[i]
		rows[row.lineKey()]++
		if !room.take(demand{lineKey: row.lineKey(), run: row.RunID, maxSteps: row.MaxSteps, maxRuns: row.MaxRuns, holders: row.Holders}) {
			refused[row.lineKey()], capped = true, true
			continue
		}
		w.Steps = append(w.Steps, refOf(row.RunID, row.Step, row.Shard, row.Generation))
	}
	for line, n := range rows {
		w.More = w.More || n == t.share && !refused[line]
	}
	return w, capped
}
