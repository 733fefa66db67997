package redis

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A decisionLog is a store's log. Package attend's DecisionLog and Waiter say
// what its methods promise.
type decisionLog struct {
	*link
	newest [len(classes)]atomic.Int64 // when this handle's newest row of a class happened
}

// logPage is how many rows are read at a time.
const logPage = 100

// Bounds implements [attend.DecisionLog].
func (l *decisionLog) Bounds(ctx context.Context) (attend.Bounds, error) {
	ctx, end, err := l.begin(ctx)
	if err != nil {
		return attend.Bounds{}, err
	}
	defer end()
	p, err := l.page(ctx, span{marks: marks})
	if err != nil {
		return attend.Bounds{}, l.failed(ctx, "bounds", err)
	}
	return p.bounds(), nil
}

// bounds are those of a page that was read with marks.
func (p *page) bounds() attend.Bounds {
	return attend.Bounds{Epoch: p.epoch, Newest: p.newest, Trimmed: p.marks[0], TrimmedVerdicts: p.marks[1]}
}

// span is a page of what q asks for, and the types that its streams stand for.
func (l *decisionLog) span(q attend.Query) (s span, types []int) {
	s = span{marks: marks, behind: q.After.Position}
	level := levelOf(q.Prefix)
	for t, name := range rowTypes {
		if !q.Wants(name) {
			continue
		}
		types = append(types, t)
		s.streams = append(s.streams, l.keys.log(t))
		if level != "" {
			s.lists = append(s.lists, l.keys.list(t, level))
		}
	}
	return s, types
}

// Read implements [attend.DecisionLog]. Rows that are trimmed before it came to
// them end it with a *TruncatedError, since leaving them out would be silent.
func (l *decisionLog) Read(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
	return func(yield func(attend.Entry, error) bool) {
		var seen attend.Bounds // of the page before
		for {
			p, types, err := l.read(ctx, q, seen, logPage, true)
			if err != nil {
				yield(attend.Entry{}, err)
				return
			}
			seen = p.bounds()
			for i := range p.rows {
				r := &p.rows[i]
				if q.Prefix.Covers(attend.Scope(r.scope)) && !yield(r.entry(rowTypes[types[r.stream]], p.epoch), nil) {
					return
				}
			}
			if !p.more {
				return
			}
			q.After = attend.LogCursor{Epoch: p.epoch, Position: p.rows[len(p.rows)-1].pos}
		}
	}
}

// read reads a page of q, unless q.After is truncated.
func (l *decisionLog) read(ctx context.Context, q attend.Query, seen attend.Bounds, limit int, bodies bool) (page, []int, error) {
	ctx, end, err := l.begin(ctx)
	if err != nil {
		return page{}, nil, err
	}
	defer end()
	s, types := l.span(q)
	s.limit, s.bodies = limit, bodies
	p, err := l.link.page(ctx, s)
	if err != nil {
		return page{}, nil, l.failed(ctx, "read", err)
	}
	now := p.bounds()
	// What was gone when the read began is no loss to it. It may well be among
	// rows of one class that are older than the trimmed ones of the other.
	if now.Trimmed == seen.Trimmed {
		now.Trimmed = 0
	}
	if now.TrimmedVerdicts == seen.TrimmedVerdicts {
		now.TrimmedVerdicts = 0
	}
	return p, types, now.Check(q)
}

func (r *stored) entry(t attend.RowType, epoch string) attend.Entry {
	return attend.Entry{
		Cursor: attend.LogCursor{Epoch: epoch, Position: r.pos},
		Row: attend.Row{
			Scope: attend.Scope(r.scope), ID: attend.DecisionID(r.id), Type: t,
			At: time.UnixMilli(r.at), Body: []byte(r.bytes),
		},
	}
}

// Find implements [attend.DecisionLog].
func (l *decisionLog) Find(ctx context.Context, id attend.DecisionID, t attend.RowType) (attend.Entry, error) {
	if t == "" {
		t = attend.RowDecision
	}
	ctx, end, err := l.begin(ctx)
	if err != nil {
		return attend.Entry{}, err
	}
	defer end()
	n := typeOf(t)
	if n < 0 {
		return attend.Entry{}, attend.ErrNotFound
	}
	out, err := l.run(ctx, findScript, call{keys: []string{l.head, l.keys.ids(n), l.keys.log(n)}, args: []string{schema, string(id)}})
	if err != nil {
		return attend.Entry{}, l.failed(ctx, "find", err)
	}
	if len(out) < 7 {
		return attend.Entry{}, attend.ErrNotFound
	}
	r := stored{pos: position(out[2]), scope: out[3], id: out[4], at: millis(out[5]), bytes: out[6]}
	return r.entry(t, out[1]), nil
}

// Wait implements [attend.Waiter].
func (l *decisionLog) Wait(ctx context.Context, q attend.Query) error {
	return l.hub.wait(ctx, q.After.Position, func(topic string) bool { return wanted(q, topic) }, func() (bool, error) { return l.ready(ctx, q) })
}

// wanted reports whether a row that a topic names is one for q.
func wanted(q attend.Query, topic string) bool {
	for _, t := range rowTypes {
		if n := len(t); len(topic) > n && topic[:n] == string(t) && topic[n] == ' ' {
			return q.Wants(t) && q.Prefix.Covers(attend.Scope(topic[n+1:]))
		}
	}
	return true
}

// ready reports whether there is something for q, a truncation included.
func (l *decisionLog) ready(ctx context.Context, q attend.Query) (bool, error) {
	ctx, end := context.WithTimeoutCause(ctx, l.timeout, errTimeout) // a Wait may have a day
	defer end()
	var seen attend.Bounds
	for {
		p, _, err := l.read(ctx, q, seen, 10*logPage, false)
		if errors.Is(err, attend.ErrTruncated) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		for i := range p.rows {
			if q.Prefix.Covers(attend.Scope(p.rows[i].scope)) {
				return true, nil
			}
		}
		if !p.more {
			return false, nil
		}
		seen = p.bounds()
		q.After = attend.LogCursor{Epoch: p.epoch, Position: p.rows[len(p.rows)-1].pos}
	}
}
