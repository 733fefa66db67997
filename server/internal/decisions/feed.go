package decisions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	attend "github.com/attend-go/attend/core"
)

// The limits of a page.
const (
	DefaultLimit = 100  // decisions, where a query has no limit
	MaxLimit     = 1000 // decisions at most, and rows that are looked at for a page
	// maxPageBytes ends a page: the stored bytes of the decisions in it, with
	// the one that goes over.
	maxPageBytes = 8 << 20
)

// A Query says which decisions a reader wants.
type Query struct {
	// After is where the reader is. The zero cursor: before the oldest row kept.
	// [Feed.Now] is where one begins who wants what comes from now on.
	After attend.LogCursor
	// Prefixes are what it may read, as access.Principal.Readable answers: a
	// scope is covered by any of them. None: there is nothing for it, now and
	// later, which is no error.
	Prefixes []attend.Prefix
	Routes   []attend.Route // empty: all
	Limit    int            // decisions in a page; 0: DefaultLimit; at most MaxLimit
}

// A Page is what a [Feed] read.
type Page struct {
	Items []Item // oldest first; the reader's own
	// Unreadable are decisions whose rows could not be read, oldest first. They
	// are passed over, so that a bad row does not make a reader deaf; whoever
	// reads is told that they are there.
	Unreadable []Unreadable
	// Next is the cursor to read on with. It goes past what was looked at and
	// left out, and is never the zero cursor.
	Next attend.LogCursor
	// Truncated: the query's cursor was of another epoch, ahead of the log, or
	// rows behind it are gone. The page begins at the oldest row kept.
	Truncated bool
	// More: the page ended before the log did. Read on at once; without it,
	// [Feed.Wait].
	More bool
}

// An Unreadable is a decision that is in the log, and no more is known.
type Unreadable struct {
	Cursor attend.LogCursor
	Scope  attend.Scope
	ID     attend.DecisionID
}

// A Feed reads one decision log. Its methods may be called from many goroutines
// at once. It has no goroutine of its own, and nothing to close.
type Feed struct {
	log    attend.DecisionLog
	logger *slog.Logger
	hub    hub
	seats  seats
}

// NewFeed returns a feed of log. The logger gets rows that can't be read; nil:
// slog.Default.
func NewFeed(log attend.DecisionLog, logger *slog.Logger) *Feed {
	if logger == nil {
		logger = slog.Default()
	}
	f := &Feed{log: log, logger: logger}
	f.hub.init()
	return f
}

// Now returns the cursor of a reader that wants what comes from now on.
func (f *Feed) Now(ctx context.Context) (attend.LogCursor, error) {
	b, err := f.log.Bounds(ctx)
	return attend.LogCursor{Epoch: b.Epoch, Position: b.Newest}, err
}

// Read returns the next page. It looks at no more than MaxLimit rows, so a page
// can be empty and have More. An error is the store's.
func (f *Feed) Read(ctx context.Context, q Query) (Page, error) {
	bounds, err := f.log.Bounds(ctx)
	if err != nil {
		return Page{}, fmt.Errorf("decisions: read the log's bounds: %w", err)
	}
	newest := attend.LogCursor{Epoch: bounds.Epoch, Position: bounds.Newest}
	p := Page{Next: q.After}
	if len(q.Prefixes) == 0 {
		p.Truncated, p.Next = bounds.Check(attend.Query{After: q.After}) != nil, newest
		return p, nil
	}
	began := q.After != attend.LogCursor{}
	cut, err := f.fill(ctx, &p, q)
	for tries := 0; cut != nil && tries < 8; tries++ { // again: the log is trimmed all the time
		p.Truncated = began // what was gone before the oldest row kept is no loss
		q.After, p.Next = cut.Oldest, cut.Oldest
		cut, err = f.fill(ctx, &p, q)
	}
	switch {
	case err != nil:
		return Page{}, fmt.Errorf("decisions: read the log: %w", err)
	case cut != nil:
		p.More = true
	case !p.More && (p.Next.Epoch != newest.Epoch || p.Next.Position < newest.Position):
		// Up to here there is nothing more for this reader, and a cursor that
		// stands still would be overtaken by retention.
		p.Next = newest
	}
	return p, nil
}

// fill adds to p what is behind q.After. Of rows that are trimmed it answers the
// cut only where it has looked at none before: else the page ends there, and the
// next one is told.
func (f *Feed) fill(ctx context.Context, p *Page, q Query) (cut *attend.TruncatedError, err error) {
	limit := q.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	limit = min(limit, MaxLimit)
	looked, size := 0, 0
	for e, err := range f.log.Read(ctx, attend.Query{After: q.After, Prefix: cover(q.Prefixes)}) {
		if err != nil {
			cut, ok := errors.AsType[*attend.TruncatedError](err)
			switch {
			case !ok:
				return nil, err
			case looked == 0:
				return cut, nil
			}
			p.More = true
			return nil, nil
		}
		looked++
		p.Next = e.Cursor
		if q.covers(e.Scope) {
			if f.add(p, e, q.Routes) {
				size += len(e.Body)
			}
		}
		if len(p.Items)+len(p.Unreadable) >= limit || looked >= MaxLimit || size >= maxPageBytes {
			p.More = true
			return nil, nil
		}
	}
	return nil, nil
}

// add puts a row's decision into the page, and reports whether it did.
func (f *Feed) add(p *Page, e attend.Entry, routes []attend.Route) bool {
	var d attend.Decision
	err := json.Unmarshal(e.Body, &d)
	if err != nil || d.ID != e.ID || d.Scope() != e.Scope {
		// The cause may quote the row.
		f.logger.Warn("a decision in the log can't be read", "scope", e.Scope, "id", e.ID, "cursor", e.Cursor.String())
		p.Unreadable = append(p.Unreadable, Unreadable{e.Cursor, e.Scope, e.ID})
		return false
	}
	if len(routes) > 0 && !slices.Contains(routes, d.Route) {
		return false
	}
	p.Items = append(p.Items, Item{Cursor: e.Cursor, Decision: d})
	return true
}

func (q *Query) covers(s attend.Scope) bool { return covers(q.Prefixes, s) }

func covers(prefixes []attend.Prefix, s attend.Scope) bool {
	return slices.ContainsFunc(prefixes, func(p attend.Prefix) bool { return p.Covers(s) })
}

// cover returns the longest prefix that covers all that these cover, so that a
// reader of several prefixes reads the log once.
func cover(prefixes []attend.Prefix) attend.Prefix {
	if len(prefixes) == 1 {
		return prefixes[0]
	}
	common := string(prefixes[0])
	for _, p := range prefixes[1:] {
		n := 0
		for n < len(common) && n < len(p) && common[n] == p[n] {
			n++
		}
		common = common[:n]
	}
	// Up to a border, or ops/a1 and ops/a2 would be read as ops/a, which covers
	// neither.
	return attend.Prefix(common[:strings.LastIndexAny(common, "/:")+1])
}
