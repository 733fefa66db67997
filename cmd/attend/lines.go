package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	attend "github.com/attend-go/attend/core"
)

// maxLine is how long a line of a recording may be, in bytes.
const maxLine = 1 << 20

// A lineReader reads lines of bounded length.
type lineReader struct {
	r      *bufio.Reader
	limit  int // of a line, in bytes, its end not counted
	buf    []byte
	number int // of the line read last, from 1
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// next returns the next line that is not blank, without what JSON takes for space
// around it. It is good until the next call. A line that is too long is an error
// that is attend.ErrTooLarge, and the next call goes on behind it; every other
// error is the reader's, io.EOF at the end.
func (l *lineReader) next() ([]byte, error) {
	for {
		line, err := l.read()
		if err != nil {
			return nil, err
		}
		if l.number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if line = bytes.Trim(line, " \t\r"); len(line) > 0 {
			return line, nil
		}
	}
}

// read returns the next line without its end, holding no more than limit of it.
func (l *lineReader) read() ([]byte, error) {
	l.buf = l.buf[:0]
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		ended := err == nil
		if ended {
			part = part[:len(part)-1]
		}
		switch {
		case err == nil, errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && (len(l.buf) > 0 || len(part) > 0 || long):
			ended = true // the last line may lack its end
		default:
			return nil, err
		}
		if long = long || len(l.buf)+len(part) > l.limit; !long {
			l.buf = append(l.buf, part...)
		}
		if !ended {
			continue
		}
		l.number++
		if long {
			return nil, &attend.TooLargeError{Field: "line", Limit: l.limit}
		}
		return l.buf, nil
	}
}

// waits reports whether the next line may be long in coming: it is not here yet,
// or not to its end.
func (l *lineReader) waits() bool {
	here, _ := l.r.Peek(l.r.Buffered()) // no more than there is
	return bytes.IndexByte(here, '\n') < 0
}
