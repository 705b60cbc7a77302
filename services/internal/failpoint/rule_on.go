//go:build failpoints

package failpoint

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The actions of rules.
const (
	actKill     = "kill"
	actStop     = "stop"
	actSleep    = "sleep"
	actAllocate = "allocate"
)

// mostMiB is how much a process allocates before it ends itself, so that a machine without limits survives.
const mostMiB = 2048

// rule says what happens at a point.
type rule struct {
	// name is the rule without its action; marks are named after it.
	name         string
	point, match string
	// nth is which time it acts in a process; 0 for every time.
	nth    int
	action string
	sleep  time.Duration
	mib    int
	once   bool
}

var ruleForm = regexp.MustCompile(`^(([a-z0-9_.]+)(?:\(([^()]+)\))?(?:#([0-9]+))?)=([a-z]+)(?:\(([^()]*)\))?( once)?$`)

// parseRules reads rules that stand apart by semicolons or lines. All that is wrong with them is one error.
func parseRules(text string) ([]rule, error) {
	var rules []rule
	var problems []error
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		r, err := parseRule(part)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		rules = append(rules, r)
	}
	return rules, errors.Join(problems...)
}

func parseRule(text string) (rule, error) {
	parts := ruleForm.FindStringSubmatch(text)
	if parts == nil {
		return rule{}, fmt.Errorf("failpoint rule %q is not of the form point[(match)][#n]=action[(argument)][ once]", text)
	}
	r := rule{name: parts[1], point: parts[2], match: parts[3], action: parts[5], once: parts[7] != ""}
	if !slices.ContainsFunc(Table(), func(p Point) bool { return p.Name == r.point }) {
		return rule{}, fmt.Errorf("failpoint rule %q: there is no point %s; package failpoint lists them", text, r.point)
	}
	var err error
	if parts[4] != "" {
		r.nth, err = strconv.Atoi(parts[4])
	}
	if err == nil {
		err = r.setArgument(parts[6])
	}
	if err != nil {
		return rule{}, fmt.Errorf("failpoint rule %q: %w", text, err)
	}
	return r, nil
}

func (r *rule) setArgument(argument string) (err error) {
	switch {
	case r.action == actSleep:
		r.sleep, err = time.ParseDuration(argument)
	case r.action == actAllocate && argument == "":
		r.mib = mostMiB
	case r.action == actAllocate:
		r.mib, err = strconv.Atoi(argument)
	case r.action != actKill && r.action != actStop:
		err = fmt.Errorf("there is no action %s, but %s, %s, %s and %s", r.action, actKill, actStop, actSleep, actAllocate)
	case argument != "":
		err = fmt.Errorf("%s takes no argument", r.action)
	}
	return err
}

// meets reports whether the rule is for the point with these labels, in a process of these services.
func (r *rule) meets(point string, labels, services []string) bool {
	return r.point == point && (r.match == "" || slices.Contains(labels, r.match) || slices.Contains(services, r.match))
}
