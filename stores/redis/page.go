package redis

import (
	"context"
	"strconv"

	attend "github.com/attend-go/attend/core"
)

// A span says what to read of a log: one page of it.
type span struct {
	streams []string
	lists   []string // of the same rows in the same order; nil: all rows
	marks   []string // fields of the head to read along
	behind  attend.Position
	limit   int // in rows; 0: the head alone
	bodies  bool
}

// A page is what was read, all of it at one moment.
type page struct {
	epoch  string
	newest attend.Position
	marks  []attend.Position
	more   bool // there are further rows
	count  int  // the rows in the streams
	rows   []stored
}

// A stored row is one as a stream keeps it.
type stored struct {
	stream           int // its place in the span
	at               int64
	pos              attend.Position
	scope, id, bytes string
}

const (
	pageBytes = 1 << 20
	// maxPosition is where numbers of Lua stop being exact. No log gets there.
	maxPosition = 1 << 53
)

func (l *link) page(ctx context.Context, s span) (page, error) {
	flag := func(b bool) string {
		if b {
			return "1"
		}
		return "0"
	}
	keys := append(append([]string{l.head}, s.streams...), s.lists...)
	args := append([]string{
		schema, strconv.Itoa(len(s.streams)), flag(s.lists != nil),
		strconv.FormatUint(uint64(min(s.behind, maxPosition)), 10),
		strconv.Itoa(s.limit), strconv.Itoa(pageBytes), flag(s.bodies),
	}, s.marks...)
	out, err := l.run(ctx, pageScript, call{keys, args})
	if err != nil {
		return page{}, err
	}
	const fixed, width = 5, 6
	if len(out) < fixed+len(s.marks) || (len(out)-fixed-len(s.marks))%width != 0 {
		return page{}, l.refused([]string{""})
	}
	p := page{epoch: out[1], newest: position(out[2]), more: out[3] == "1", count: int(position(out[4]))}
	out = out[fixed:]
	for range s.marks {
		p.marks = append(p.marks, position(out[0]))
		out = out[1:]
	}
	for ; len(out) > 0; out = out[width:] {
		p.rows = append(p.rows, stored{
			stream: int(position(out[0])) - 1, pos: position(out[1]),
			scope: out[2], id: out[3], at: millis(out[4]), bytes: out[5],
		})
	}
	return p, nil
}

func position(s string) attend.Position {
	n, _ := strconv.ParseUint(s, 10, 64)
	return attend.Position(n)
}

func millis(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
