// Package jsonlines reads texts that have one JSON document a line, as they come from anywhere: with a byte order mark, with
// line ends of either kind, with empty lines, and without an end of the last one.
//
// It holds one line at a time. Item reads a line as an item of a batch. A Reader is used by one goroutine.
package jsonlines

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

const bufferBytes = 64 << 10

// Line is one line that is not empty.
type Line struct {
	// Number counts from 1, empty lines too.
	Number int
	// Text is without the line's end; it is valid until the next line is read.
	Text []byte
	// TooLong says that the line is longer than the limit; Text has what stands before it.
	TooLong bool
}

// Reader reads lines. New makes it.
type Reader struct {
	source *bufio.Reader
	limit  int
	number int
	buffer []byte
}

// New returns a reader of lines of at most so many bytes.
func New(source io.Reader, limit int) *Reader {
	return &Reader{source: bufio.NewReaderSize(source, bufferBytes), limit: limit}
}

// Next returns the next line that is not empty; io.EOF behind the last. Whatever else cuts the text off is returned as it is,
// and a line that has begun then is none.
func (r *Reader) Next() (Line, error) {
	for {
		line, err := r.read()
		if err != nil {
			return Line{}, err
		}
		if line.TooLong || len(bytes.TrimSpace(line.Text)) > 0 {
			return line, nil
		}
	}
}

// read returns the next line, empty or not.
func (r *Reader) read() (Line, error) {
	r.buffer = r.buffer[:0]
	began, tooLong := false, false
	for {
		piece, err := r.source.ReadSlice('\n')
		began = began || len(piece) > 0
		if room := r.limit + len("\r\n") - len(r.buffer); len(piece) > room {
			piece, tooLong = piece[:room], true
		}
		r.buffer = append(r.buffer, piece...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && began, err == nil:
			return r.line(tooLong), nil
		default:
			return Line{}, err
		}
	}
}

func (r *Reader) line(tooLong bool) Line {
	r.number++
	text := r.buffer
	if r.number == 1 {
		text = bytes.TrimPrefix(text, []byte("\ufeff"))
	}
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	if len(text) > r.limit {
		text, tooLong = text[:r.limit], true
	}
	return Line{Number: r.number, Text: text, TooLong: tooLong}
}
