package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxProblems bounds how many problems are reported; a file with more is no pipeline.
const maxProblems = 100

// Position is a place in a source, counted as editors do: from 1, columns in characters. The zero Position is unknown.
type Position struct {
	Line, Column int
}

// Problem is one thing that is wrong with a pipeline.
type Problem struct {
	// File is the name of the file as it was given.
	File string
	Position
	// Path is the value concerned, such as steps[1].llm.prompt; empty for the pipeline as a whole.
	Path string
	// Message says what is wrong, and what would be right.
	Message string
}

// String gives the problem with its place, as compilers do.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File + ":")
	}
	if p.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", p.Line, p.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems are all the problems of a pipeline, in the order of the source; never empty.
type Problems []Problem //nolint:errname // what it is, and not only that it is an error

// Error gives the problems, one a line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

// problems collects what is wrong.
type problems struct {
	file string
	list Problems
	seen map[string]bool
}

func newProblems(file string) *problems {
	return &problems{file: file, seen: map[string]bool{}}
}

// add reports a problem, unless the same was reported already: an aliased value is met more than once.
func (p *problems) add(at Position, where path, format string, args ...any) {
	problem := Problem{File: p.file, Position: at, Path: where.String(), Message: fmt.Sprintf(format, args...)}
	duplicate := slices.ContainsFunc(p.list, func(other Problem) bool {
		return other.Position == problem.Position && other.Message == problem.Message
	})
	if !duplicate && len(p.list) < 10*maxProblems {
		p.list = append(p.list, problem)
	}
	p.mark(where)
}

// mark notes that there is a problem with a value, so that what follows from it is not reported too.
func (p *problems) mark(where path) { p.seen[where.String()] = true }

// reported says whether there is a problem with the value itself, or with one that it is part of.
func (p *problems) reported(where path) bool {
	for i := range where {
		if p.seen[where[:i+1].String()] {
			return true
		}
	}
	return false
}

// err gives the problems, or nil when there are none.
func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	slices.SortStableFunc(p.list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Clip(p.list[:min(len(p.list), maxProblems)])
}

// path leads from the pipeline to a value: names of fields, and indices.
type path []any

// then is the path to a part of the value.
func (p path) then(parts ...any) path { return slices.Concat(p, path(parts)) }

// String writes the path as people do: steps[1].llm.prompt.
func (p path) String() string {
	var b strings.Builder
	for _, part := range p {
		switch part := part.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", part)
		case string:
			if !isName(part) {
				b.WriteString("[" + strconv.Quote(part) + "]")
				continue
			}
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(part)
		}
	}
	return b.String()
}

// isName says whether a key can stand in a path as it is.
func isName(key string) bool {
	return key != "" && strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$-") == ""
}
