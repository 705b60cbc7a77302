package pipeline

import (
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// source is the text that nodes were read from.
type source struct {
	text string
	// lines are the offsets at which the lines begin.
	lines []int
}

func newSource(raw []byte) source {
	s := source{text: string(raw), lines: []int{0}}
	for i := range len(raw) {
		if raw[i] == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	return s
}

// position gives the line and column of an offset in bytes.
func (s source) position(offset int) Position {
	offset = min(offset, len(s.text))
	line := sort.SearchInts(s.lines, offset+1) // how many lines begin at the offset or before
	return Position{Line: line, Column: 1 + utf8.RuneCountInString(s.text[s.lines[line-1]:offset])}
}

// offset is the inverse of position.
func (s source) offset(at Position) int {
	if at.Line < 1 || at.Line > len(s.lines) {
		return 0
	}
	offset := s.lines[at.Line-1]
	for range at.Column - 1 {
		_, size := utf8.DecodeRuneInString(s.text[offset:])
		offset += size
	}
	return offset
}

// within gives the place of an offset inside a template. Between the template's value and its source lie the quotes,
// escapes, indents and folded lines of YAML and JSON; but `${` is written the same everywhere, so the search starts at
// the last one before. What is not found again character by character is placed at the beginning of the template.
func (s source) within(n *node, offset int) Position {
	const open = "${"
	before, start := n.value[:offset], s.offset(n.at)
	at := start
	for range strings.Count(before, open) {
		next := strings.Index(s.text[at:], open)
		if next < 0 {
			return n.at
		}
		at += next + len(open)
	}
	if strings.HasPrefix(n.value[offset:], open) {
		if next := strings.Index(s.text[at:], open); next >= 0 {
			return s.position(at + next)
		}
		return n.at
	}
	if at == start {
		return n.at
	}
	return s.follow(n, at, before[strings.LastIndex(before, open)+len(open):])
}

// follow walks the source along a piece of a template.
func (s source) follow(n *node, at int, piece string) Position {
	style := s.text[s.offset(n.at)]
	for piece != "" {
		if rest := strings.TrimLeft(piece, spaces); len(rest) < len(piece) {
			piece = rest
			at += spaceLength(s.text[at:], style)
			continue
		}
		r, size := utf8.DecodeRuneInString(piece)
		length, ok := written(s.text[at:], r, style)
		if !ok {
			return n.at
		}
		at += length
		piece = piece[size:]
	}
	return s.position(at)
}

const spaces = " \t\r\n"

// spaceLength gives the length of the white space that the source begins with, escaped or not.
func spaceLength(source string, style byte) int {
	length := 0
	for {
		rest := strings.TrimLeft(source[length:], spaces)
		length = len(source) - len(rest)
		if style != '"' || len(rest) < 2 || rest[0] != '\\' || !strings.ContainsRune("nrt \n", rune(rest[1])) {
			return length
		}
		length += 2
	}
}

// written gives the length of what stands for a character at the beginning of the source, in a style that is told by its
// first character: in double quotes an escape may, in single quotes two quotes do.
func written(source string, r rune, style byte) (length int, ok bool) {
	switch {
	case style == '\'' && r == '\'':
		return 2, strings.HasPrefix(source, "''")
	case style == '"' && strings.HasPrefix(source, `\u`) && len(source) >= 6:
		code, err := strconv.ParseUint(source[2:6], 16, 32)
		return 6, err == nil && rune(code) == r
	case style == '"' && strings.HasPrefix(source, `\`):
		return 2, len(source) > 1
	default:
		return utf8.RuneLen(r), strings.HasPrefix(source, string(r))
	}
}
