// Package config reads what a process is told at its start: flags, environment and a YAML file, which say the same things
// under the same names. Flags win over the environment, the environment over the file, the file over defaults.
//
// What can be told is declared once, as kong tags on the Config structs of the packages that use it. For a flag
// --database-url the variable is PAWL_DATABASE_URL, or PAWL_DATABASE_URL_FILE with the path of a file that holds the value,
// and the key is "database-url", or "url" below "database".
package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// Prefix begins the name of every variable.
const Prefix = "PAWL"

// fileSuffix ends the name of a variable that names a file with the value.
const fileSuffix = "_FILE"

// Options make a kong parser read the environment, and the YAML file of a flag of type kong.ConfigFlag.
func Options() []kong.Option {
	return []kong.Option{
		kong.DefaultEnvars(Prefix),
		kong.Resolvers(kong.ResolverFunc(fromFileVariable)),
		kong.Configuration(yamlFile),
	}
}

// fromFileVariable gives a flag the content of the file that its …_FILE variable names.
func fromFileVariable(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	path := fileVariable(flag)
	if path == "" || isInEnvironment(flag) {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read value: %w", err)
	}
	return strings.TrimRight(string(content), "\r\n"), nil
}

func fileVariable(flag *kong.Flag) string {
	for _, name := range flag.Envs {
		if path := os.Getenv(name + fileSuffix); path != "" {
			return path
		}
	}
	return ""
}

func isInEnvironment(flag *kong.Flag) bool {
	for _, name := range flag.Envs {
		if _, ok := os.LookupEnv(name); ok {
			return true
		}
	}
	return false
}

// yamlFile reads a configuration file. A key that no flag has is an error, with its line.
func yamlFile(r io.Reader) (kong.Resolver, error) {
	var document yaml.Node
	err := yaml.NewDecoder(r).Decode(&document)
	if errors.Is(err, io.EOF) {
		return file{root: &yaml.Node{Kind: yaml.MappingNode}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("configuration file, line %d: write keys and values", root.Line)
	}
	return file{root: root}, nil
}

// file is a configuration file; root is a mapping.
type file struct{ root *yaml.Node }

// Resolve returns what the file says for the flag, unless the environment says something.
func (f file) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if isInEnvironment(flag) || fileVariable(flag) != "" {
		return nil, nil
	}
	value := find(f.root, flag.Name)
	if value == nil {
		return nil, nil
	}
	if value.Tag == "!!null" {
		return nil, fmt.Errorf("configuration file, line %d: %s has no value", value.Line, flag.Name)
	}
	if value.Kind == yaml.ScalarNode {
		return value.Value, nil
	}
	var decoded any
	if err := value.Decode(&decoded); err != nil {
		return nil, fmt.Errorf("configuration file, line %d: %w", value.Line, err)
	}
	return decoded, nil
}

// find returns the value at the name, whose parts may be nested at any of its dashes; nil if there is none.
func find(mapping *yaml.Node, name string) *yaml.Node {
	for key, value := range entries(mapping) {
		if key.Value == name {
			return value
		}
		rest, ok := strings.CutPrefix(name, key.Value+"-")
		if !ok || value.Kind != yaml.MappingNode {
			continue
		}
		if found := find(value, rest); found != nil {
			return found
		}
	}
	return nil
}

// entries walks the keys and values of a mapping.
func entries(mapping *yaml.Node) func(yield func(key, value *yaml.Node) bool) {
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; i+1 < len(mapping.Content); i += 2 {
			if !yield(mapping.Content[i], mapping.Content[i+1]) {
				return
			}
		}
	}
}

// Validate reports every key that no flag of the program has, and every key that is there twice.
func (f file) Validate(app *kong.Application) error {
	flags := map[string]bool{}
	collect(app.Node, flags)
	return errors.Join(problems(f.root, "", flags, map[string]int{})...)
}

func collect(node *kong.Node, flags map[string]bool) {
	for _, flag := range node.Flags {
		flags[flag.Name] = true
	}
	for _, child := range node.Children {
		collect(child, flags)
	}
}

// problems checks the mapping whose keys begin with prefix. seen has the line of each name met before.
func problems(mapping *yaml.Node, prefix string, flags map[string]bool, seen map[string]int) []error {
	var errs []error
	for key, value := range entries(mapping) {
		name := prefix + key.Value
		switch {
		case flags[name] && seen[name] > 0:
			errs = append(errs, fmt.Errorf("configuration file, line %d: %s is set in line %d too", key.Line, name, seen[name]))
		case flags[name]:
			seen[name] = key.Line
		case value.Kind == yaml.MappingNode:
			errs = append(errs, problems(value, name+"-", flags, seen)...)
		default:
			errs = append(errs, fmt.Errorf("configuration file, line %d: there is no setting %s: keys are the names of "+
				"flags, see --help", key.Line, name))
		}
	}
	return errs
}
