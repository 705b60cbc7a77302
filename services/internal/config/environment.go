package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Environment says what a command was told by flags and by its configuration file as variables, for programs that are to be
// told the same. What it was told by variables they inherit.
func Environment(c *kong.Context) []string {
	var variables []string
	for _, part := range c.Path {
		if part.Flag == nil || len(part.Flag.Envs) == 0 {
			continue
		}
		variables = append(variables, part.Flag.Envs[0]+"="+plain(c.FlagValue(part.Flag)))
	}
	return variables
}

// plain is a value as a variable holds it.
func plain(value any) string {
	switch v := value.(type) {
	case Secret:
		return v.Reveal()
	case []string:
		return strings.Join(v, ",")
	case map[string]string:
		var pairs []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			pairs = append(pairs, name+"="+v[name])
		}
		return strings.Join(pairs, ";")
	default:
		return fmt.Sprint(v)
	}
}
