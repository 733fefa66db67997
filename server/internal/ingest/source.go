package ingest

import (
	"io"

	attend "github.com/attend-go/attend/core"
)

// plainBuffer is how much of a body is read at once; more only where an item is
// longer.
const plainBuffer = 64 << 10

// A splitter cuts a body into items.
type splitter interface {
	// next returns the next item, good until the next call. One that is too long
	// is passed over and is an error that is attend.ErrTooLarge; any other error
	// ends the body, io.EOF its good end.
	next() ([]byte, error)
	// number is the place of the item that next was about, from 1.
	number() int
}

// A source holds a piece of a body: never more than the longest item, whatever
// comes.
type source struct {
	r        io.Reader
	limit    int // of an item, in bytes
	buf      []byte
	from, to int // what is read and not yet used
	err      error
}

// more reads on and keeps what is unused, which begins at from afterwards as
// before. It reports false at the end, and then err is set.
func (s *source) more() bool {
	if s.err != nil {
		return false
	}
	if s.to == len(s.buf) {
		s.room()
	}
	for range 100 { // a reader may read nothing, but not for ever
		n, err := s.r.Read(s.buf[s.to:])
		s.to += n
		if err != nil {
			s.err = err
		}
		if n > 0 {
			return true
		}
		if err != nil {
			return false
		}
	}
	s.err = io.ErrNoProgress
	return false
}

// room makes some behind to. Who asks has no item over the limit in the buffer.
func (s *source) room() {
	kept := s.buf[s.from:s.to]
	if most := s.limit + plainBuffer; len(kept) > len(s.buf)/2 && len(s.buf) < most || len(s.buf) == 0 {
		s.buf = make([]byte, max(plainBuffer, min(2*len(s.buf), most)))
	}
	s.to = copy(s.buf, kept)
	s.from = 0
}

func (s *source) tooLarge(noun string) error {
	return &attend.TooLargeError{Field: noun, Limit: s.limit}
}
