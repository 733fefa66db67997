package bolt

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"slices"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
)

// An index is a bucket whose keys are a hash and a position: for each narrowing
// that a reader can ask for, the positions of just its rows. A hash has 64 bits,
// so that an entry is small whatever the name; who reads looks at the row
// itself too.
//
// Rows come into the log's index some time after they were appended, many at
// once and in the index's order. Each by itself would change a page for each of
// its hashes in the commit that brought it, which is more than all the rest of
// the commit.
const (
	indexBehind = 1024 // rows that may be missing in it
	indexStep   = 512  // rows that one transaction brings into it
)

// An entry is a key of an index.
type entry struct {
	hash uint64
	pos  attend.Position
}

func (e entry) key() []byte { return binary.BigEndian.AppendUint64(key(e.hash), uint64(e.pos)) }

// The kinds of hashes. They are in files: none is ever used for something else.
const (
	kindClass  = 'c' // rows of the log, by what retention counts together
	kindID     = 'i' // by type and id
	kindPrefix = 'p' // by type and prefix
	kindScope  = 's' // events, by scope
	kindEvent  = 'e' // by scope and id
)

func hash(kind byte, parts ...string) uint64 {
	b := append(make([]byte, 0, 256), kind)
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}

func classHash(class int) uint64 { return hash(kindClass, string(rune('0'+class))) }

func idHash(t attend.RowType, id attend.DecisionID) uint64 {
	return hash(kindID, string(t), string(id))
}

func prefixHash(t attend.RowType, p attend.Prefix) uint64 {
	return hash(kindPrefix, string(t), string(p))
}

// entries are those of a row of the log.
func (r *row) entries(to []entry) []entry {
	to = append(to, entry{classHash(class(r.typ)), r.pos}, entry{idHash(r.typ, r.id), r.pos})
	for p := range prefixes(r.scope) {
		to = append(to, entry{prefixHash(r.typ, p), r.pos})
	}
	return to
}

// maxPrefixes is how many prefixes of one scope are in the index: the shortest
// ones. A reader of a longer one reads the longest of these, and leaves out what
// isn't covered.
const maxPrefixes = 16

// prefixes yields those of s that are in the index, from short to long: the
// empty one, s up to each border, and s itself. One that ends in a border is
// read as the one without it.
func prefixes(s attend.Scope) iter.Seq[attend.Prefix] {
	return func(yield func(attend.Prefix) bool) {
		if !yield("") {
			return
		}
		n := 1
		for i := 1; i <= len(s) && n < maxPrefixes; i++ {
			if i < len(s) && s[i] != '/' && s[i] != ':' {
				continue
			}
			if !yield(attend.Prefix(s[:i])) {
				return
			}
			n++
		}
	}
}

// narrow is the longest prefix in the index whose rows have all that p covers.
func narrow(p attend.Prefix) (found attend.Prefix) {
	if n := len(p); n > 0 && (p[n-1] == '/' || p[n-1] == ':') {
		p = p[:n-1]
	}
	for found = range prefixes(attend.Scope(p)) {
	}
	return found
}

// put adds entries to an index, in its order.
func put(b *bbolt.Bucket, entries []entry) error {
	slices.SortFunc(entries, compareEntries)
	for _, e := range entries {
		if err := b.Put(e.key(), nil); err != nil {
			return err
		}
	}
	return nil
}

func drop(b *bbolt.Bucket, entries []entry) error {
	slices.SortFunc(entries, compareEntries)
	for _, e := range entries {
		if err := b.Delete(e.key()); err != nil {
			return err
		}
	}
	return nil
}

func compareEntries(a, b entry) int {
	return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.pos, b.pos))
}

// places yields the positions of a hash behind after.
func places(b *bbolt.Bucket, hash uint64, after attend.Position) iter.Seq[attend.Position] {
	return func(yield func(attend.Position) bool) {
		if after+1 == 0 {
			return
		}
		c, prefix := b.Cursor(), key(hash)
		for k, _ := c.Seek(entry{hash, after + 1}.key()); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
			if !yield(attend.Position(number(k[8:]))) {
				return
			}
		}
	}
}

// placesBack yields the positions of a hash before p, newest first.
func placesBack(b *bbolt.Bucket, hash uint64, p attend.Position) iter.Seq[attend.Position] {
	return func(yield func(attend.Position) bool) {
		c, prefix := b.Cursor(), key(hash)
		k, _ := c.Seek(entry{hash, p}.key())
		if k == nil {
			k, _ = c.Last()
		} else {
			k, _ = c.Prev()
		}
		for ; bytes.HasPrefix(k, prefix); k, _ = c.Prev() {
			if !yield(attend.Position(number(k[8:]))) {
				return
			}
		}
	}
}

// indexRows brings up to n rows into the index, and tells how many.
func indexRows(tx *bbolt.Tx, n int) (int, error) {
	m, err := readMarks(tx)
	if err != nil {
		return 0, err
	}
	var all []entry
	rows := 0
	for r, err := range rowsBehind(tx, m.indexed) {
		if err != nil {
			return 0, err
		}
		if rows == n {
			break
		}
		rows++
		all = r.entries(all)
		m.indexed = r.pos
		m.kept[class(r.typ)]++
	}
	if rows == 0 {
		return 0, nil
	}
	if err := put(tx.Bucket(bucketIndex), all); err != nil {
		return 0, err
	}
	return rows, m.write(tx)
}
