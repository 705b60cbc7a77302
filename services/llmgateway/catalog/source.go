package catalog

import (
	"crypto/sha256"
	"maps"
	"os"
	"time"
)

// digest stands for a file's content, or for why there is none.
type digest [sha256.Size]byte

// Source is a models file that is looked at again and again, with the key files that it names. Contents are compared, not
// times or inodes: a mounted ConfigMap changes by swapping a link.
type Source struct {
	path string
	env  Environment
	// loaded are the files as they were read last, and looked as they were at the last look.
	loaded, looked map[string]digest
}

// NewSource returns a Source of the file at path. Nothing is read yet.
func NewSource(path string, env Environment) *Source { return &Source{path: path, env: env} }

// Load reads the file, as the function Load does.
func (s *Source) Load(now time.Time) (*Catalog, error) {
	s.loaded = map[string]digest{}
	f := &file{env: s.env, read: func(name string, content []byte, err error) { s.loaded[name] = digestOf(content, err) }}
	return f.load(s.path, now)
}

// Changed reports whether a file is other than when it was loaded, and the same as when Changed was called last: one that
// somebody is writing is not read before it is whole.
func (s *Source) Changed() bool {
	before := s.looked
	s.looked = map[string]digest{}
	for name := range s.loaded {
		s.looked[name] = digestOf(os.ReadFile(name)) //nolint:gosec // the operator names the file
	}
	return !maps.Equal(s.looked, s.loaded) && maps.Equal(s.looked, before)
}

// Again makes Changed report true although nothing has changed: what was loaded could not be put to use.
func (s *Source) Again() {
	for name := range s.loaded {
		s.loaded[name] = digest{}
	}
}

func digestOf(content []byte, err error) digest {
	if err != nil {
		return sha256.Sum256([]byte("no file: " + err.Error()))
	}
	return sha256.Sum256(append([]byte("file: "), content...))
}
