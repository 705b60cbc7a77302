package simulated

import (
	"fmt"
	"strconv"
	"strings"
)

// usage is what an answer costs, in tokens. Formats write it each in their own way.
type usage struct {
	prompt             int // all of it: cached, written to the cache, and fresh
	cached             int
	write5m, write1h   int // written to the cache, to stay for 5 minutes or an hour
	output             int // reasoning included
	reasoning          int
	unsaid, impossible bool
}

// total is prompt and output; an impossible usage does not add up.
func (u usage) total() int {
	if u.impossible {
		return u.prompt + u.output + 1
	}
	return u.prompt + u.output
}

// fresh is what neither came from the cache nor went there.
func (u usage) fresh() int { return u.prompt - u.cached - u.write5m - u.write1h }

// alterUsage makes the usage what the plan says.
func (p plan) alterUsage(u *usage) {
	if f := p.usage; f != nil {
		*u = f.usage
	}
	if f := p.outcome; f != nil {
		u.unsaid = f.Kind == kindNoUsage
		if f.Kind == kindWrongUsage {
			u.impossible, u.cached = true, u.prompt+1000
		}
	}
}

// parseUsage reads the argument of the fault usage, for example prompt:120+cached:100+completion:7.
func parseUsage(text string) (usage, error) {
	var u usage
	members := map[string]*int{
		"prompt": &u.prompt, "cached": &u.cached, "cache_write_5m": &u.write5m, "cache_write_1h": &u.write1h,
		"completion": &u.output, "reasoning": &u.reasoning,
	}
	for entry := range strings.SplitSeq(text, "+") {
		name, number, _ := strings.Cut(entry, ":")
		n, err := strconv.Atoi(number)
		if members[name] == nil || err != nil || n < 0 {
			return u, fmt.Errorf("%q is no part of a usage: write prompt, cached, cache_write_5m, cache_write_1h, completion and reasoning, "+
				"as prompt:120+cached:100+completion:7", entry)
		}
		*members[name] = n
	}
	if u.fresh() < 0 || u.reasoning > u.output {
		return u, fmt.Errorf("%q cannot be: prompt counts what is cached and written to the cache, and completion the reasoning", text)
	}
	return u, nil
}
