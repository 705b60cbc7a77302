package catalog

import (
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"pawl.internal/services/internal/config"
)

// keyFromEnv finds a key in the environment variable that the file names. A key itself never stands in the file.
func (f *file) keyFromEnv(dst *Key) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		var name string
		f.text(&name)(n, path)
		if name == "" {
			return // it has been complained of
		}
		value, _ := f.env(name)
		if strings.TrimSpace(value) == "" {
			f.complain(n, path, "the environment variable %s is not set", name)
		}
		f.found(dst, Key{ID: name, Secret: config.NewSecret(strings.TrimSpace(value))}, n, path)
	}
}

// keyFromFile finds a key in the file of its own that the models file names; relative names start from its folder.
func (f *file) keyFromFile(dst *Key) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		var name string
		f.text(&name)(n, path)
		if name == "" {
			return // it has been complained of
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(f.folder, name)
		}
		value, err := f.readFile(name)
		switch {
		case err != nil:
			f.complain(n, path, "%v", err)
		case strings.TrimSpace(string(value)) == "":
			f.complain(n, path, "the file %s is empty", name)
		}
		f.found(dst, Key{ID: filepath.Base(name), Secret: config.NewSecret(strings.TrimSpace(string(value)))}, n, path)
	}
}

// found notes where a key is, which must be said once.
func (f *file) found(dst *Key, k Key, n *yaml.Node, path string) {
	if dst.ID != "" {
		f.complain(n, path, "the key is named in an environment variable and in a file: one is enough")
		return
	}
	*dst = k
}

// keys reads a list of keys, each {env: NAME} or {file: NAME}.
func (f *file) keys(p *Provider, n *yaml.Node, path string) {
	f.list(n, path, func(n *yaml.Node, path string) {
		var k Key
		f.mapping(n, path, fields{"env": f.keyFromEnv(&k), "file": f.keyFromFile(&k)})
		if k.ID == "" {
			f.complain(n, path, `must say where the key is: "env" names a variable, or "file" a file`)
			return
		}
		f.addKey(p, k, n, path)
	})
}

// addKey gives the provider a key, which it must not have already.
func (f *file) addKey(p *Provider, k Key, n *yaml.Node, path string) {
	if slices.ContainsFunc(p.Keys, func(other Key) bool { return other.ID == k.ID }) {
		f.complain(n, path, "there is another key with the name %q", k.ID)
		return
	}
	p.Keys = append(p.Keys, k)
}
