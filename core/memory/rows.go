package memory

import (
	"crypto/rand"
	"iter"
	"slices"
	"sort"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
)

// rows is the decision log's content, guarded by the store's lock. For each
// narrowing that a reader can ask for there is a list of just its rows, so that
// reading and waiting cost what they find, however much else the log holds.
type rows struct {
	bounds  attend.Bounds
	keep    attend.Retain
	classes [2][]*row // what retention counts: decisions and letters; verdict rows
	lists   map[listKey]*list
	newest  map[rowKey]*row // the newest of an id, for Find
}

// A row is never changed, so readers use it after the lock is gone. Its body is
// a string to say so.
type row struct {
	pos   attend.Position
	scope attend.Scope
	id    attend.DecisionID
	typ   attend.RowType
	at    int64 // in Unix milliseconds
	body  string
}

// A list holds the rows of one type whose scopes a prefix covers, oldest first,
// and who waits for more of them.
type list struct {
	rows    []*row
	waiting map[waiter]struct{}
}

type (
	listKey struct {
		typ    attend.RowType
		prefix attend.Prefix
	}
	rowKey struct {
		typ attend.RowType
		id  attend.DecisionID
	}
	// A waiter has room for one token, which wakes it.
	waiter chan struct{}
)

func newRows(keep attend.Retain) rows {
	return rows{
		bounds: attend.Bounds{Epoch: rand.Text()},
		keep:   keep,
		lists:  make(map[listKey]*list),
		newest: make(map[rowKey]*row),
	}
}

// maxLists is how many prefixes of one scope have a list: the shortest ones,
// about seven levels. A reader of a longer prefix reads the longest of these
// and leaves out what isn't covered.
const maxLists = 16

// prefixes yields the empty prefix and then, from short to long, every prefix
// that covers s and has a list.
func prefixes(s attend.Scope) iter.Seq[attend.Prefix] {
	return func(yield func(attend.Prefix) bool) {
		if !yield("") {
			return
		}
		n := 1
		for i := 1; i <= len(s) && n < maxLists; i++ {
			if i < len(s) && !border(s[i-1]) && !border(s[i]) {
				continue
			}
			if !yield(attend.Prefix(s[:i])) {
				return
			}
			n++
		}
	}
}

func border(c byte) bool { return c == '/' || c == ':' }

// listOf is the prefix of the shortest list that holds all that p covers: p
// itself, mostly. A scope that p covers has the same borders up to p's end.
func listOf(p attend.Prefix) (list attend.Prefix) {
	for list = range prefixes(attend.Scope(p)) {
	}
	return list
}

func (l *rows) list(t attend.RowType, p attend.Prefix) *list {
	k := listKey{t, p}
	x := l.lists[k]
	if x == nil {
		x = new(list)
		l.lists[k] = x
	}
	return x
}

// release drops the list if nobody needs it.
func (l *rows) release(t attend.RowType, p attend.Prefix, x *list) {
	if len(x.rows) == 0 && len(x.waiting) == 0 {
		delete(l.lists, listKey{t, p})
	}
}

// append adds the rows, wakes who waits for them, and takes a small step of
// retention for each.
func (l *rows) append(in []attend.Row) {
	for i := range in {
		l.add(&in[i])
	}
	if len(in) > 0 && l.keep != (attend.Retain{}) {
		l.step(2 * len(in))
	}
}

func (l *rows) add(in *attend.Row) {
	l.bounds.Newest++
	r := &row{
		pos:   l.bounds.Newest,
		scope: attend.Scope(strings.Clone(string(in.Scope))),
		id:    attend.DecisionID(strings.Clone(string(in.ID))),
		typ:   in.Type,
		at:    in.At.UnixMilli(),
		body:  string(in.Body),
	}
	c := class(r.typ)
	l.classes[c] = append(l.classes[c], r)
	l.newest[rowKey{r.typ, r.id}] = r
	for p := range prefixes(r.scope) {
		x := l.list(r.typ, p)
		x.rows = append(x.rows, r)
		for w := range x.waiting {
			select {
			case w <- struct{}{}:
			default:
			}
		}
		x.waiting = nil
	}
}

// class is what retention counts a type with.
func class(t attend.RowType) int {
	if t == attend.RowVerdict {
		return 1
	}
	return 0
}

// step trims at most n rows of each class that the store's own Retain does not
// keep. Ages count from the newest row, so no clock is read, and a log that is
// replayed from last year's events is not emptied.
func (l *rows) step(n int) {
	for c, limit := range [2]int{l.keep.Count, l.keep.Verdicts} {
		for range n {
			x := l.classes[c]
			if len(x) == 0 {
				break
			}
			old := l.keep.Age > 0 && x[0].at < x[len(x)-1].at-l.keep.Age.Milliseconds()
			if !old && (limit <= 0 || len(x) <= limit) {
				break
			}
			l.trimOldest(c)
		}
	}
}

// trimOldest takes the class's oldest row. It is the oldest in each of its
// lists as well, since a list holds one type.
func (l *rows) trimOldest(c int) {
	r := l.classes[c][0]
	l.classes[c] = pop(l.classes[c])
	if c == 0 {
		l.bounds.Trimmed = r.pos
	} else {
		l.bounds.TrimmedVerdicts = r.pos
	}
	if k := (rowKey{r.typ, r.id}); l.newest[k] == r {
		delete(l.newest, k)
	}
	for p := range prefixes(r.scope) {
		x := l.list(r.typ, p)
		x.rows = pop(x.rows)
		l.release(r.typ, p, x)
	}
}

// pop drops the first element. What append moves later is only what is left.
func pop[T any](s []*T) []*T {
	s[0] = nil
	return s[1:]
}

// behind returns the rows of rs behind p.
func behind(rs []*row, p attend.Position) []*row {
	return rs[sort.Search(len(rs), func(i int) bool { return rs[i].pos > p }):]
}

// wanted returns the lists that q reads, which may be none.
func (l *rows) wanted(q attend.Query) []*list {
	var out []*list
	for _, t := range types(q) {
		if x := l.lists[listKey{t, listOf(q.Prefix)}]; x != nil {
			out = append(out, x)
		}
	}
	return out
}

// types is what q asks for, each once.
func types(q attend.Query) []attend.RowType {
	if len(q.Types) == 0 {
		return []attend.RowType{attend.RowDecision}
	}
	ts := slices.Clone(q.Types)
	slices.Sort(ts)
	return slices.Compact(ts)
}

// page appends to page, up to its capacity, the rows of the lists behind p in
// the order of the log.
func (l *rows) page(q attend.Query, p attend.Position, page []*row) []*row {
	var rest [][]*row
	for _, x := range l.wanted(q) {
		rest = append(rest, behind(x.rows, p))
	}
	for len(page) < cap(page) {
		first := -1
		for i, rs := range rest {
			if len(rs) > 0 && (first < 0 || rs[0].pos < rest[first][0].pos) {
				first = i
			}
		}
		if first < 0 {
			break
		}
		page = append(page, rest[first][0])
		rest[first] = rest[first][1:]
	}
	return page
}

// stale is the newest position of the class that keep does not keep, 0 for
// none. It looks at a few rows at a time, newest first, from before p on, and
// returns where to go on.
func (l *rows) stale(c int, cutoff int64, p attend.Position) (found, next attend.Position) {
	rs := l.classes[c]
	i := sort.Search(len(rs), func(i int) bool { return rs[i].pos >= p })
	for range trimStep {
		if i == 0 {
			return 0, 0
		}
		if i--; rs[i].at < cutoff {
			return rs[i].pos, 0
		}
	}
	return 0, rs[i].pos
}

// trimStep is how many rows Trim looks at or deletes before it lets others in.
const trimStep = 1000

// surplus is the position up to which the class has more than limit rows.
func (l *rows) surplus(c, limit int) attend.Position {
	rs := l.classes[c]
	if limit <= 0 || len(rs) <= limit {
		return 0
	}
	return rs[len(rs)-limit-1].pos
}

// trim deletes up to trimStep rows at or before p, and reports whether there
// may be more.
func (l *rows) trim(c int, p attend.Position) bool {
	for range trimStep {
		if len(l.classes[c]) == 0 || l.classes[c][0].pos > p {
			return false
		}
		l.trimOldest(c)
	}
	return true
}

// entry is the row as callers get it, with a body of their own.
func (r *row) entry(epoch string) attend.Entry {
	return attend.Entry{
		Cursor: attend.LogCursor{Epoch: epoch, Position: r.pos},
		Row: attend.Row{
			Scope: r.scope, ID: r.id, Type: r.typ,
			At: time.UnixMilli(r.at), Body: []byte(r.body),
		},
	}
}
