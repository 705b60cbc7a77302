package client

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Progress shows a line for each of several things that go on. On a terminal the lines change in place; elsewhere each
// change is a line of its own. It is safe for concurrent use.
type Progress struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	order    []string          // guarded by mu
	lines    map[string]string // guarded by mu
	drawn    int               // guarded by mu; lines on the screen
}

// NewProgress returns a Progress that writes to w.
func NewProgress(w io.Writer) *Progress {
	file, isFile := w.(*os.File)
	terminal := isFile && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
	return &Progress{w: w, terminal: terminal, lines: map[string]string{}}
}

// Show sets the line of a thing.
func (p *Progress) Show(name, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lines[name] == text {
		return
	}
	if !slices.Contains(p.order, name) {
		p.order = append(p.order, name)
	}
	p.lines[name] = text
	if p.terminal {
		p.draw()
		return
	}
	fmt.Fprintf(p.w, "%s  %s\n", name, text)
}

// End leaves the lines as they are; what is shown later begins below them.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.order, p.drawn = nil, 0
	clear(p.lines)
}

// draw writes all lines over those that stand there. p.mu is held.
func (p *Progress) draw() {
	var screen strings.Builder
	if p.drawn > 0 {
		fmt.Fprintf(&screen, "\x1b[%dA", p.drawn)
	}
	for _, name := range p.order {
		fmt.Fprintf(&screen, "\r\x1b[2K%s  %s\n", name, p.lines[name])
	}
	p.drawn = len(p.order)
	_, _ = io.WriteString(p.w, screen.String())
}
