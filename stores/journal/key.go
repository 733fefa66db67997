package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"slices"

	attend "github.com/attend-go/attend/core"
)

// A Key is what an index lists positions under: for each narrowing that a
// reader can ask for, just its rows. It is 64 bits of a hash, so that an entry
// is small whatever the name; who reads looks at the row itself too.
type Key uint64

// An Entry is one position under one key of an index.
type Entry struct {
	Key Key
	Pos attend.Position
}

// The kinds of keys. They are in files: none is ever used for something else.
const (
	kindClass = 'c' // rows of the log, by what retention counts together
	kindID    = 'i' // by type and id
	kindName  = 'p' // by type and name, which is a scope's beginning
	kindScope = 's' // events, by scope
	kindEvent = 'e' // by scope and id
)

func key(kind byte, parts ...string) Key {
	b := append(make([]byte, 0, 256), kind)
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	return Key(binary.BigEndian.Uint64(sum[:]))
}

// ClassKey is the key of a class's rows.
func ClassKey(class int) Key { return key(kindClass, string(rune('0'+class))) }

// IDKey is the key of the rows of a type that have an id.
func IDKey(t attend.RowType, id attend.DecisionID) Key { return key(kindID, string(t), string(id)) }

// PrefixKeys are up to three keys that have all rows of a type that p covers, a
// row under one of them. They have no others, unless p has more borders than an
// index goes into.
func PrefixKeys(t attend.RowType, p attend.Prefix) (keys []Key) {
	for _, name := range namesOf(p) {
		keys = append(keys, nameKey(t, name))
	}
	return keys
}

func nameKey(t attend.RowType, name string) Key { return key(kindName, string(t), name) }

// ScopeKey is the key of a scope's events.
func ScopeKey(s attend.Scope) Key { return key(kindScope, string(s)) }

// EventKey is the key of the event of a scope that has an id.
func EventKey(s attend.Scope, id string) Key { return key(kindEvent, string(s), id) }

// RowEntries appends to to the entries of a row of the log.
func RowEntries(to []Entry, pos attend.Position, t attend.RowType, s attend.Scope, id attend.DecisionID) []Entry {
	to = append(to, Entry{ClassKey(Class(t)), pos}, Entry{IDKey(t, id), pos})
	for name := range names(s) {
		to = append(to, Entry{nameKey(t, name), pos})
	}
	return to
}

// Class is what retention counts a type with: 0 for decisions and dead letters,
// 1 for verdict rows.
func Class(t attend.RowType) int {
	if t == attend.RowVerdict {
		return 1
	}
	return 0
}

// Types is what q asks for, each once.
func Types(q attend.Query) []attend.RowType {
	if len(q.Types) == 0 {
		return []attend.RowType{attend.RowDecision}
	}
	ts := slices.Clone(q.Types)
	slices.Sort(ts)
	return slices.Compact(ts)
}

// maxNames is how many names of one scope are in the index: with the scope
// itself, the shortest ones.
const maxNames = 16

// names yields what a row of scope s is listed under: the empty name, s up to
// each border and with it, and s itself.
func names(s attend.Scope) iter.Seq[string] {
	return func(yield func(string) bool) {
		if !yield("") {
			return
		}
		n, last := 2, 0
		for i := 0; i < len(s) && n < maxNames; i++ {
			if border(s[i]) {
				if n, last = n+1, i+1; !yield(string(s[:last])) {
					return
				}
			}
		}
		if last < len(s) {
			yield(string(s))
		}
	}
}

func border(c byte) bool { return c == '/' || c == ':' }

// namesOf are the names under which together is all that p covers, each once,
// and nothing else. Where p is deeper than the index goes it is one name that
// has more; who reads leaves that out.
func namesOf(p attend.Prefix) []string {
	if p == "" {
		return []string{""}
	}
	n, last := 2, 0
	for i := 0; i < len(p); i++ {
		if !border(p[i]) {
			continue
		}
		if n == maxNames {
			return []string{string(p[:last])}
		}
		n, last = n+1, i+1
	}
	switch {
	case last == len(p):
		return []string{string(p)}
	case n == maxNames: // what follows a border is not in the index
		return []string{string(p[:last])}
	}
	return []string{string(p), string(p) + "/", string(p) + ":"}
}
