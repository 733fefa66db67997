package sqlite

import (
	"crypto/sha256"
	"encoding/binary"
	"iter"

	attend "github.com/attend-go/attend/core"
)

// An index is a table of keys and positions: for each narrowing that a reader
// can ask for, the positions of just its rows. A key is 64 bits of a hash, so
// that an entry is small whatever the name; who reads looks at the row itself
// too.
func key(kind byte, parts ...string) int64 {
	b := make([]byte, 0, 256)
	b = append(b, kind)
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// The kinds of keys. They are in files: none is ever used for something else.
const (
	kindClass  = 'c' // rows of the log, by what retention counts together
	kindID     = 'i' // by type and id
	kindPrefix = 'p' // by type and prefix
	kindScope  = 's' // events, by scope
	kindEvent  = 'e' // by scope and id
)

func classKey(class int) int64 { return key(kindClass, string(rune('0'+class))) }

func idKey(t attend.RowType, id attend.DecisionID) int64 { return key(kindID, string(t), string(id)) }

func prefixKey(t attend.RowType, p attend.Prefix) int64 { return key(kindPrefix, string(t), string(p)) }

// rowKeys are the keys of a row of the log.
func rowKeys(keys []int64, t attend.RowType, s attend.Scope, id attend.DecisionID) []int64 {
	keys = append(keys, classKey(class(t)), idKey(t, id))
	for p := range prefixes(s) {
		keys = append(keys, prefixKey(t, p))
	}
	return keys
}

// class is what retention counts a type with: decisions and dead letters, or
// verdict rows.
func class(t attend.RowType) int {
	if t == attend.RowVerdict {
		return 1
	}
	return 0
}

// maxPrefixes is how many prefixes of one scope are in the index: the shortest
// ones. A reader of a longer one reads the longest of these, and leaves out
// what isn't covered.
const maxPrefixes = 16

// prefixes yields those of s that are in the index, from short to long: the
// empty one, s up to each border, and s itself. One that ends in a border has
// the same rows as the one without it, but for a few.
func prefixes(s attend.Scope) iter.Seq[attend.Prefix] {
	return func(yield func(attend.Prefix) bool) {
		if !yield("") {
			return
		}
		n := 1
		for i := 1; i <= len(s) && n < maxPrefixes; i++ {
			if i < len(s) && !border(s[i]) {
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

// narrow is the prefix in the index that has all that p covers: p itself,
// mostly. A scope that p covers has the same borders up to p's end.
func narrow(p attend.Prefix) (in attend.Prefix) {
	if p != "" && border(p[len(p)-1]) {
		p = p[:len(p)-1]
	}
	for in = range prefixes(attend.Scope(p)) {
	}
	return in
}

// beyond is the first name behind all that begin with p, nil where there is
// none.
func beyond(p attend.Prefix) []byte {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] < 0xff {
			b := bytes(p[:i+1])
			b[i]++
			return b
		}
	}
	return nil
}
