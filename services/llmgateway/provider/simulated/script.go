package simulated

import (
	"fmt"
	"strconv"
	"strings"
)

// script is the faults that a model's name asks for, so that a caller needs nothing but a model's name to see them:
//
//	name?fault,fault,…     with each fault   kind[=argument][*count]
//
// Kinds and arguments are those of Fault. Faults with a count hit the first tries of every conversation, one after the other,
// and the next try is answered; then it begins anew. A conversation is known by its messages up to the first user message, so
// that a repair, which appends to them, goes on with it. latency and drip go beside the others.
//
//	sim-small?429=1s*1,429=5s*1   the first try gets 429 with Retry-After 1, the second with 5, the third an answer
//	sim-small?latency=50ms~2s     slow, always
//	sim-large?bad_schema*1        the first answer breaks the schema, the repaired one does not
//	sim-small?503                 never answers
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
