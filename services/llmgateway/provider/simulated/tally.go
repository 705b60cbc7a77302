package simulated

import (
	"maps"
	"strings"
)

// maxNames bounds the keys and models that are counted apart; what comes later counts under otherNames.
const (
	maxNames   = 10_000
	otherNames = "others"
)

// tally counts requests by outcome, for every key, model and format.
type tally struct{ keys, models, formats map[string]map[string]int }

func newTally() tally {
	return tally{keys: map[string]map[string]int{}, models: map[string]map[string]int{}, formats: map[string]map[string]int{}}
}

func (t tally) add(r *Record) {
	model, _, _ := strings.Cut(r.Model, "?")
	for _, of := range []struct {
		counts map[string]map[string]int
		name   string
	}{{t.keys, r.Key}, {t.models, model}, {t.formats, r.Format}} {
		if of.name == "" {
			continue
		}
		if of.counts[of.name] == nil && len(of.counts) >= maxNames {
			of.name = otherNames
		}
		if of.counts[of.name] == nil {
			of.counts[of.name] = map[string]int{}
		}
		of.counts[of.name][r.Outcome]++
	}
}

func (t tally) clone() tally {
	deep := func(m map[string]map[string]int) map[string]map[string]int {
		same := maps.Clone(m)
		for name, counts := range same {
			same[name] = maps.Clone(counts)
		}
		return same
	}
	return tally{deep(t.keys), deep(t.models), deep(t.formats)}
}

// maxAdmissions bounds the series of admissions, to the newest.
const maxAdmissions = 200_000

// admit notes that a request was let in with so much.
func (l *ledger) admit(rec *record, asked load) {
	rec.Admitted = true
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[rec.Number].Admitted = true
	a := Admission{
		At: l.clock.Now(), Number: rec.Number, Format: rec.Format, Key: rec.Key, Model: rec.Model,
		InputTokens: asked.input, OutputTokens: asked.output,
	}
	if len(l.admissions) < maxAdmissions {
		l.admissions = append(l.admissions, a)
		return
	}
	l.admissions[l.nextAdmission] = a
	l.nextAdmission = (l.nextAdmission + 1) % maxAdmissions
}

// series returns the admissions, oldest first.
func (l *ledger) series() []Admission {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(append([]Admission{}, l.admissions[l.nextAdmission:]...), l.admissions[:l.nextAdmission]...)
}

// other counts a request that is no question to a model.
func (l *ledger) other(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.others[name]++
}
