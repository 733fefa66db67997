package ingest

import "bytes"

// A lines cuts a body at its newlines. The last line needs none. Blank lines are
// counted and passed over; a carriage return is space, and so is a byte order
// mark that begins the body.
type lines struct {
	*source
	n      int
	looked int // bytes behind from that hold no newline
}

var mark = []byte("\ufeff")

func (l *lines) number() int { return l.n }

func (l *lines) next() ([]byte, error) {
	for {
		line, err := l.line()
		if err != nil {
			return nil, err
		}
		if l.n == 1 {
			line = bytes.TrimPrefix(line, mark)
		}
		if i := space(line, 0); i < len(line) {
			return line, nil
		}
	}
}

// line returns the next line, a blank one too.
func (l *lines) line() ([]byte, error) {
	long := false
	for {
		rest := l.buf[l.from:l.to]
		i := bytes.IndexByte(rest[l.looked:], '\n')
		if i >= 0 {
			i += l.looked
			l.from += i + 1
			l.looked = 0
			l.n++
			if long || i > l.limit {
				return nil, l.tooLarge("line")
			}
			return rest[:i], nil
		}
		l.looked = len(rest)
		if long || len(rest) > l.limit {
			long = true
			l.from, l.looked = l.to, 0
		}
		if l.more() {
			continue
		}
		if !ended(l.err) || len(rest) == 0 && !long {
			return nil, l.err // a line that was cut off is none
		}
		l.from, l.looked = l.to, 0
		l.n++
		if long {
			return nil, l.tooLarge("line")
		}
		return rest, nil
	}
}
