package simulated

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// maxFiles bounds the bytes of all files together.
const maxFiles = 1 << 30

// file is what was uploaded, or what a batch left behind.
type file struct {
	ID       string `json:"id"`
	Object   string `json:"object"`
	Bytes    int    `json:"bytes"`
	Created  int64  `json:"created_at"`
	Filename string `json:"filename"`
	Purpose  string `json:"purpose"`
	Status   string `json:"status"`

	content []byte
}

// files keeps files in memory, oldest first.
type files struct {
	mu     sync.Mutex
	number int
	size   int
	list   []*file
}

// add keeps a file; the failure is that there is no room.
func (s *files) add(name, purpose string, content []byte, now time.Time) (*file, *failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size+len(content) > maxFiles {
		return nil, invalid("file", fmt.Sprintf("the simulated provider keeps at most %d bytes of files: delete some", maxFiles))
	}
	s.number++
	s.size += len(content)
	f := &file{
		ID: fmt.Sprintf("file-simulated-%d", s.number), Object: "file", Bytes: len(content), Created: now.Unix(),
		Filename: name, Purpose: purpose, Status: "processed", content: content,
	}
	s.list = append(s.list, f)
	return f, nil
}

// get returns the file with this id, nil if there is none.
func (s *files) get(id string) *file {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.list {
		if f.ID == id {
			return f
		}
	}
	return nil
}

// newest returns the files, newest first.
func (s *files) newest() []*file {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.list)
	slices.Reverse(list)
	return list
}

// remove forgets a file; it reports whether there was one with this id.
func (s *files) remove(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.list)
	s.list = slices.DeleteFunc(s.list, func(f *file) bool {
		if f.ID != id {
			return false
		}
		s.size -= len(f.content)
		return true
	})
	return len(s.list) < before
}
