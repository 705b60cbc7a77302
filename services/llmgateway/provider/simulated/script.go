package simulated

import (
	"fmt"
	"strconv"
	"strings"
)

// script is the faults that a model's name asks for; the package's comment has the grammar.
type script struct {
	model   string // before the question mark
	faults  []*Fault
	counted int // tries until it begins anew
}

// parseScript reads the name of a model with its faults.
func parseScript(name string) (script, error) {
	model, list, scripted := strings.Cut(name, "?")
	s := script{model: model}
	if !scripted {
		return s, nil
	}
	outcomes := 0
	for entry := range strings.SplitSeq(list, ",") {
		f, err := parseEntry(entry)
		if err != nil {
			return s, fmt.Errorf("model %q: %w", name, err)
		}
		if f.shapes() {
			s.counted = max(s.counted, f.Count)
		} else {
			outcomes += f.Count
		}
		s.faults = append(s.faults, f)
	}
	s.counted = max(s.counted, outcomes)
	return s, nil
}

func parseEntry(entry string) (*Fault, error) {
	f := &Fault{}
	rest, count, counted := strings.Cut(entry, "*")
	f.Kind, f.Argument, _ = strings.Cut(rest, "=")
	if counted {
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q: the count after * must be a number from 1", entry)
		}
		f.Count = n
	}
	if f.Kind == kindHold || f.Kind == kindReply {
		return nil, fmt.Errorf("%s cannot be asked for in a model's name: use POST /admin/faults", f.Kind)
	}
	if err := f.parse(); err != nil {
		return nil, err
	}
	return f, nil
}

// plan adds to p what the script does to a conversation's try, counted from 0.
func (s script) plan(try int, p *plan) {
	before := 0 // tries that the faults so far have taken
	for _, f := range s.faults {
		from := before
		if f.shapes() {
			from = 0
		} else {
			before += f.Count
		}
		if try >= from && (f.Count == 0 || try < from+f.Count) {
			p.add(f)
		}
	}
}
