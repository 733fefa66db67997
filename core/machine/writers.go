package machine

import "slices"

const maxWriters = 16

// A writer is an engine, and the last of its running numbers that landed (E29).
type writer struct{ id, number uint64 }

// writers are the engines whose inputs a scope remembers. It is a value: no
// copy of it sees what note changes.
type writers struct {
	last writer   // id 0: there is none
	rest []writer // most recent first, less than maxWriters
}

// note puts w in front, and reports false where it has landed before. Of the
// most that there may be, the one that was silent for longest goes.
func (l *writers) note(w writer) bool {
	if l.last.id == w.id || l.last.id == 0 {
		if l.last.id != 0 && l.last.number >= w.number {
			return false
		}
		l.last = w
		return true
	}
	i := slices.IndexFunc(l.rest, func(o writer) bool { return o.id == w.id })
	if i >= 0 && l.rest[i].number >= w.number {
		return false
	}
	if i < 0 {
		i = min(len(l.rest), maxWriters-2)
	}
	rest := append(make([]writer, 0, maxWriters-1), l.last)
	rest = append(rest, l.rest[:i]...)
	if i < len(l.rest) {
		rest = append(rest, l.rest[i+1:]...)
	}
	l.last, l.rest = w, rest
	return true
}

// all lists the writers, most recent first.
func (l *writers) all() []writer {
	if l.last.id == 0 {
		return nil
	}
	return append([]writer{l.last}, l.rest...)
}

// writersOf is the opposite of all.
func writersOf(list []writer) (l writers) {
	if len(list) > 0 {
		l.last, l.rest = list[0], slices.Clone(list[1:])
	}
	return l
}
