package checkup

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
)

// lookAgain is the time between two looks at findings that may go by themselves.
const lookAgain = 500 * time.Millisecond

// Result is what a check has found.
type Result struct {
	*Check
	Findings []Finding
	// Err says why the check could not be carried out.
	Err error
	// Mended is how many findings were dealt with, and MendErr why others were not.
	Mended  int
	MendErr error
}

// candidate is a finding that may go by itself.
type candidate struct {
	Finding
	since time.Time
}

// pending are the candidates of a check.
type pending struct {
	result     *Result
	candidates map[string]candidate
}

// Examine carries out the checks. Findings of what is true only after a while count when they have stayed for as long as the
// check says, and for patience more. On a system on which nothing is suspicious it looks once and does not wait.
func Examine(ctx context.Context, t *Target, checks []*Check, patience time.Duration) []*Result {
	results := make([]*Result, len(checks))
	var open []*pending
	for i, c := range checks {
		results[i] = &Result{Check: c}
		found, err := c.Find(ctx, t)
		switch {
		case err != nil:
			results[i].Err = err
		case c.Settles == 0:
			results[i].Findings = found
		case len(found) > 0:
			open = append(open, suspect(t.Clock.Now(), results[i], found))
		}
	}
	for len(open) > 0 {
		if err := t.Clock.Sleep(ctx, lookAgain); err != nil {
			for _, p := range open {
				p.result.Err = err
			}
			break
		}
		open = slices.DeleteFunc(open, func(p *pending) bool { return p.look(ctx, t, patience) })
	}
	return results
}

func suspect(now time.Time, r *Result, found []Finding) *pending {
	p := &pending{result: r, candidates: make(map[string]candidate, len(found))}
	for _, f := range found {
		if f.Settles == 0 {
			f.Settles = r.Settles
		}
		p.candidates[f.Key] = candidate{Finding: f, since: now}
	}
	return p
}

// look looks again at what was suspicious, and reports whether all of it is decided.
func (p *pending) look(ctx context.Context, t *Target, patience time.Duration) bool {
	again := *t
	again.Runs = p.runs()
	found, err := p.result.Find(ctx, &again)
	if err != nil {
		p.result.Err = err
		return true
	}
	now := t.Clock.Now()
	still := make(map[string]candidate, len(found))
	for _, f := range found {
		c, known := p.candidates[f.Key]
		if !known {
			continue
		}
		if now.Sub(c.since) >= c.Settles+patience {
			p.result.Findings = append(p.result.Findings, f)
		} else {
			still[f.Key] = c
		}
	}
	p.candidates = still
	return len(still) == 0
}

// runs are those of the candidates.
func (p *pending) runs() []uuid.UUID {
	var runs []uuid.UUID
	for _, c := range p.candidates {
		if c.Run != uuid.Nil {
			runs = append(runs, c.Run)
		}
	}
	slices.SortFunc(runs, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(runs)
}

// Mend repairs what the results list, as far as that is safe. Wanted says which checks are to be repaired.
func Mend(ctx context.Context, t *Target, results []*Result, wanted func(*Check) bool) {
	for _, r := range results {
		if r.Check.Mend != nil && len(r.Findings) > 0 && wanted(r.Check) {
			r.Mended, r.MendErr = r.Check.Mend(ctx, t, r.Findings)
		}
	}
}
