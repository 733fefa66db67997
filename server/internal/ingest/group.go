package ingest

import (
	"context"
	"errors"
	"net/http"
	"unicode/utf8"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/engine"
)

// What a group holds at most. It is no more than one push may hold, so that a
// group with a single scope is one push.
const (
	maxGroupLines = engine.MaxPushEvents
	maxGroupBytes = engine.MaxPushBytes
)

// A group is lines that are committed together. Its memory is its own; what it
// was made of may be used again.
type group struct {
	budget *budget
	pieces int // taken from the budget
	bytes  int // what it holds, an upper bound
	lines  []groupLine
	events []attend.Event // of the lines, in their order
	pushes []groupPush
	last   int                  // the push that the last line went to
	newest map[attend.Scope]int // the newest push of each scope, from the second push on
	arena  []byte               // room for data
	joined []byte               // the strings of an event

	// Set by commit:

	list   []engine.ScopePush
	sorted []attend.Event
}

type groupLine struct {
	number int
	push   int     // where it went; negative: nowhere
	why    *reason // it is not taken, and that was so before the commit
	scope  attend.Scope
}

type groupPush struct {
	scope attend.Scope
	verb  verb
	size  int     // events
	why   *reason // it is not tried
}

func (g *group) empty() bool { return len(g.lines) == 0 }

// size is an upper bound of what an event of an item costs of a push.
func size(it *item) int {
	n := len(it.id) + len(it.name) + len(it.text) + len(it.data)
	if !utf8.Valid(it.text) || !utf8.Valid(it.data) {
		n *= 3 // a broken byte becomes U+FFFD
	}
	return n + 256
}

// fits reports whether an item has room. An empty group has room for any.
func (g *group) fits(it *item) bool {
	if g.empty() {
		return true
	}
	n := g.bytes + size(it)
	if len(g.lines) >= maxGroupLines || n > maxGroupBytes {
		return false
	}
	for n > (g.pieces+1)*budgetPiece {
		if !g.budget.take() {
			return false
		}
		g.pieces++
	}
	return true
}

// add takes an item that fits.
func (g *group) add(number int, it *item) {
	g.bytes += size(it)
	n := g.find(it)
	p := &g.pushes[n]
	g.last = n
	g.lines = append(g.lines, groupLine{number: number, push: n})
	if it.verb != verbEvent {
		return
	}
	p.size++
	// One piece of memory for its strings: the engine keeps some of them.
	i, m := len(it.id), len(it.id)+len(it.name)
	g.joined = append(append(append(g.joined[:0], it.id...), it.name...), it.text...)
	s := string(g.joined)
	e := attend.Event{ID: s[:i], Name: s[i:m], Text: s[m:], At: it.at}
	if it.data != nil {
		e.Data = g.keep(it.data)
	}
	g.events = append(g.events, e)
}

// refuse takes a line that is not to be committed, in its place.
func (g *group) refuse(number int, scope attend.Scope, why *reason) {
	g.bytes += 64 + len(scope)
	g.lines = append(g.lines, groupLine{number, -1, why, scope})
}

// keep copies data. What was kept before stays where it is.
func (g *group) keep(data []byte) []byte {
	if cap(g.arena)-len(g.arena) < len(data) {
		g.arena = make([]byte, 0, max(4<<10, min(2*cap(g.arena), budgetPiece), len(data)))
	}
	from := len(g.arena)
	g.arena = append(g.arena, data...)
	return g.arena[from:len(g.arena):len(g.arena)]
}

// find returns the push that an item belongs to.
func (g *group) find(it *item) int {
	n := -1
	switch {
	case len(g.pushes) > 0 && string(it.scope) == string(g.pushes[g.last].scope):
		n = g.last
	case len(g.newest) > 0:
		if at, ok := g.newest[attend.Scope(it.scope)]; ok {
			n = at
		}
	}
	if n >= 0 && it.verb == verbEvent && g.pushes[n].verb == verbEvent {
		return n
	}
	var scope attend.Scope
	if n >= 0 {
		scope = g.pushes[n].scope
	} else {
		scope = attend.Scope(it.scope)
	}
	n = len(g.pushes)
	g.bytes += len(scope) + 256 // what a push takes; the next line is measured with it
	g.pushes = append(g.pushes, groupPush{scope: scope, verb: it.verb})
	if n > 0 {
		if g.newest == nil {
			g.newest = make(map[attend.Scope]int)
		}
		if n == 1 {
			g.newest[g.pushes[0].scope] = 0
		}
		g.newest[scope] = n
	}
	return n
}

// commit brings the group to the engine, and returns when each line has its
// answer.
func (g *group) commit(ctx context.Context, e Engine) {
	g.sort()
	g.list = g.list[:0]
	from := 0
	for i := range g.pushes {
		p := &g.pushes[i]
		events := g.sorted[from : from+p.size : from+p.size]
		from += p.size
		if p.why == nil {
			g.list = append(g.list, engine.ScopePush{
				Scope: p.scope, Events: events, Lenient: true, Flush: p.verb == verbFlush, End: p.verb == verbEnd,
			})
		}
	}
	if len(g.list) > 0 {
		e.PushAll(ctx, g.list)
	}
}

// sort puts the events of each push side by side.
func (g *group) sort() {
	if len(g.pushes) <= 1 {
		g.sorted = g.events
		return
	}
	starts := make([]int, len(g.pushes))
	n := 0
	for i := range g.pushes {
		starts[i] = n
		n += g.pushes[i].size
	}
	g.sorted = make([]attend.Event, n)
	next := 0
	for i := range g.lines {
		l := &g.lines[i]
		if l.push < 0 || g.pushes[l.push].verb != verbEvent {
			continue
		}
		g.sorted[starts[l.push]] = g.events[next]
		starts[l.push]++
		next++
	}
}

// results calls f for each line in order: why it was not taken, or nil.
func (g *group) results(fields map[string]string, f func(number int, scope attend.Scope, why *reason)) {
	type state struct {
		push *engine.ScopePush // nil: it was not tried
		why  *reason
		seen int // events so far
		left int // of those that were left out, so far
	}
	states := make([]state, len(g.pushes))
	n := 0
	for i := range g.pushes {
		s := &states[i]
		if s.why = g.pushes[i].why; s.why != nil {
			continue
		}
		s.push = &g.list[n]
		n++
		if s.push.Err != nil {
			s.why = because(s.push.Err, fields)
		}
	}
	for i := range g.lines {
		l := &g.lines[i]
		if l.push < 0 {
			f(l.number, l.scope, l.why)
			continue
		}
		s := &states[l.push]
		why := s.why
		if why == nil && s.left < len(s.push.Left) && s.push.Left[s.left].Index == s.seen {
			why = because(s.push.Left[s.left], fields)
			s.left++
		}
		s.seen++
		f(l.number, g.pushes[l.push].scope, why)
	}
}

// counts are what became of the lines of a committed group that were taken:
// events, flushes and ends that are new, and repeats.
func (g *group) counts() (accepted, duplicates int) {
	for i := range g.list {
		switch x := &g.list[i]; {
		case x.Err != nil:
		case x.Flush || x.End:
			accepted++
		default:
			accepted += x.Receipt.New
			duplicates += x.Receipt.Duplicates
		}
	}
	return accepted, duplicates
}

// whole reports whether every line of a committed group was taken.
func (g *group) whole() bool {
	if len(g.list) < len(g.pushes) {
		return false
	}
	for i := range g.list {
		if x := &g.list[i]; x.Err != nil || len(x.Left) > 0 {
			return false
		}
	}
	return true
}

// failure is why nothing of a committed group was taken, where that is the
// store's fault: other scopes would fare no better.
func (g *group) failure(fields map[string]string) *reason {
	var why *reason
	for i := range g.list {
		err := g.list[i].Err
		if err == nil || errors.Is(err, attend.ErrNewer) || errors.Is(err, attend.ErrCorrupt) {
			return nil
		}
		if why = because(err, fields); why.status != http.StatusServiceUnavailable {
			return nil
		}
	}
	return why
}

// clear makes an empty group of it, which holds no more than a small one would.
func (g *group) clear() {
	g.budget.give(g.pieces)
	kept := *g
	*g = group{budget: kept.budget}
	if cap(kept.lines) > 1024 || len(kept.newest) > 1024 || cap(kept.arena) > budgetPiece {
		return
	}
	clear(kept.lines)
	clear(kept.events)
	clear(kept.pushes)
	clear(kept.newest)
	clear(kept.list)
	g.lines, g.events, g.pushes, g.list = kept.lines[:0], kept.events[:0], kept.pushes[:0], kept.list[:0]
	g.newest, g.arena = kept.newest, kept.arena[:0]
	if cap(kept.joined) <= budgetPiece {
		g.joined = kept.joined
	}
}
