package postgres

import (
	"container/heap"
	"context"
	"iter"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	attend "github.com/attend-go/attend/core"
)

// The due time of a busy scope changes with most of its windows, and a row whose
// index changes costs a multiple of one whose index does not. So the index holds
// a lower bound of it, look, which a commit writes only when the due time moves
// before it. Due goes along the index and knows each scope's place from its row:
// who is due at t is in the index at t or before, so what was found up to there
// can be yielded, oldest first, and the rest waits its turn.
//
// A scope whose bound has passed and that is not due is in the way of each Due
// until somebody moves its bound on. That is what mend does, behind the page, in
// the background and without waiting for anybody. So a scope's index changes
// once for each Due that comes upon it, however often it was written meanwhile.

// Pages of Due. The first is small, for who stops early.
const (
	firstPage   = 128
	largestPage = 1024
)

// A dueScope is a scope and when it is due, in Unix milliseconds.
type dueScope struct {
	at    int64
	scope attend.Scope
}

// Due yields the scopes that are due, as [attend.ScopeStore] says. What it reads
// ahead is up to 1,024 scopes, and those whose due time was put off since it was
// last looked at.
func (s *Store) Due(ctx context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
	return func(yield func(attend.Scope, error) bool) {
		p := duePage{look: math.MinInt64, limit: firstPage}
		for more := true; more; {
			var err error
			if more, err = s.duePage(ctx, &p, now.UnixMilli()); err != nil {
				yield("", err)
				return
			}
			s.mend(p.early, now)
			end := dueScope{p.look, attend.Scope(p.scope)}
			for len(p.found) > 0 && (!more || !end.before(p.found[0])) {
				// One that was mended between two pages was found twice.
				next := heap.Pop(&p.found).(dueScope)
				if next != p.last && !yield(next.scope, nil) {
					return
				}
				p.last = next
			}
			p.limit = min(2*p.limit, largestPage)
		}
	}
}

// A duePage is how far a Due has come.
type duePage struct {
	look  int64 // everything in the index before this, and before scope, was read
	scope string
	limit int
	found dueHeap  // due, and not yielded yet
	last  dueScope // what was yielded last
	early []string // of the last page: not due, though the index says so
}

// duePage reads the next page, and reports whether there may be another.
func (s *Store) duePage(ctx context.Context, p *duePage, now int64) (more bool, err error) {
	n := 0
	var fresh []dueScope
	look, scope := p.look, p.scope
	err = s.call(ctx, "due", true, func(ctx context.Context) error {
		n, fresh, p.early = 0, fresh[:0], nil
		rows, err := s.pool.Query(ctx, s.texts.due, p.look, p.scope, now, p.limit)
		if err != nil {
			return err
		}
		var due *int64
		_, err = pgx.ForEachRow(rows, []any{&scope, &look, &due}, func() error {
			n++
			if due != nil && *due <= now {
				fresh = append(fresh, dueScope{*due, attend.Scope(scope)})
			} else {
				p.early = append(p.early, scope)
			}
			return nil
		})
		return err
	})
	if err != nil {
		return false, err
	}
	if n > 0 {
		p.look, p.scope = look, scope
	}
	for _, d := range fresh {
		heap.Push(&p.found, d)
	}
	return n == p.limit, nil
}

// mend moves the index of scopes that are not due to when they are. One runs at
// a time; what is left out, the next Due finds again.
func (s *Store) mend(early []string, now time.Time) {
	if len(early) == 0 || !s.mending.CompareAndSwap(false, true) {
		return
	}
	done := func() { s.mending.Store(false) }
	started := s.start(func(ctx context.Context) {
		defer done()
		err := s.call(ctx, "due", true, func(ctx context.Context) error {
			_, err := s.pool.Exec(ctx, s.texts.mend, early, now.UnixMilli())
			return err
		})
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.Warn("attend: the index of due times could not be tidied", "err", err)
		}
	})
	if !started {
		done()
	}
}

func (d dueScope) before(e dueScope) bool {
	return d.at < e.at || d.at == e.at && d.scope < e.scope
}

// A dueHeap has the oldest first, and of those the one that is first by name.
type dueHeap []dueScope

// Len, Less, Swap, Push and Pop are what package heap needs.
func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].before(h[j]) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(dueScope)) }
func (h *dueHeap) Pop() any {
	old := *h
	last := len(old) - 1
	x := old[last]
	*h = old[:last]
	return x
}
