package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A record is a header and then the changes of one commit, each behind the
// other. The header is the format's version (1 byte), the length of what
// follows it and its CRC-32C (4 bytes each, big-endian). The tag of the record
// before it comes next (8 bytes), 0 where there is none. A change is
//
//	flags (1 byte)
//	the scope
//	the version that it was made from
//	the version that it makes, unless it forgets the scope
//	the due time in Unix milliseconds, if it has one (a signed varint)
//	the snapshot, if it has one
//	the inputs: of all together their size, and then each
//
// with numbers as varints, and bytes behind their length.
const (
	recordVersion = 1
	recordHeader  = 9
	recordStart   = recordHeader + 8 // of the changes
)

// maxRecord limits what a commit brings, and what is believed of a stored
// length: databases stop somewhere between this and 2 GiB.
const maxRecord = 512 << 20

// Flags of a change.
const (
	flagForget = 1 << iota
	flagKeepDue
	flagDue
	flagSnapshot
	flagsKnown = flagForget | flagKeepDue | flagDue | flagSnapshot
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A change is what a record says of one scope. Its bytes are the record's.
type change struct {
	scope   []byte
	expect  uint64
	version uint64 // 0: the scope is forgotten
	due     int64  // or Never
	keepDue bool
	snap    []byte // nil: none
	inputs  []byte // as appendInput wrote them
}

// A group is a commit's writes as bytes, made before it is known which of them
// land.
type group struct {
	buf  []byte   // a whole record, if all land, but for its header
	ends []int    // where each write ends in buf
	made []uint64 // the version that each write makes, 0 for one that forgets
}

// encode writes the group's changes. A scope that begins gets a random version,
// so that a writer that knew an earlier life of it can't land on the new one.
func encode(writes []attend.Write) (*group, error) {
	size := recordStart
	for i := range writes {
		size += writeSize(&writes[i])
		if size > maxRecord {
			return nil, &attend.TooLargeError{Field: "commit", Limit: maxRecord}
		}
	}
	g := &group{buf: make([]byte, recordStart, size), ends: make([]int, len(writes)), made: make([]uint64, len(writes))}
	for i := range writes {
		w := &writes[i]
		switch {
		case w.Forget:
		case w.Expect == 0:
			g.made[i] = rand.Uint64N(1<<62-1) + 1
		default:
			g.made[i] = w.Expect + 1
		}
		g.buf = appendChange(g.buf, w, g.made[i])
		g.ends[i] = len(g.buf)
	}
	return g, nil
}

// record returns the changes that land as one record, behind the one with the
// tag prev.
func (g *group) record(lands []bool, all bool, prev uint64) []byte {
	b := g.buf
	if !all {
		b = make([]byte, recordStart, len(g.buf))
		from := recordStart
		for i, end := range g.ends {
			if lands[i] {
				b = append(b, g.buf[from:end]...)
			}
			from = end
		}
	}
	seal(b, prev)
	return b
}

// newTag draws a record's tag, which says which of all records with its seq it
// is: a database that is put back to an older moment goes on with others.
func newTag() uint64 { return rand.Uint64N(math.MaxUint64) + 1 }

// seal fills in what is before a record's changes.
func seal(b []byte, prev uint64) {
	binary.BigEndian.PutUint64(b[recordHeader:], prev)
	b[0] = recordVersion
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-recordHeader))
	binary.BigEndian.PutUint32(b[5:], crc32.Checksum(b[recordHeader:], castagnoli))
}

// writeSize is at least what appendChange adds.
func writeSize(w *attend.Write) int {
	n := 1 + 6*binary.MaxVarintLen64 + len(w.Scope) + len(w.Snapshot)
	for _, in := range w.Inputs {
		n += binary.MaxVarintLen64 + len(in)
	}
	return n
}

func appendChange(b []byte, w *attend.Write, version uint64) []byte {
	due := dueOf(w.Due)
	flags := byte(0)
	if w.Forget {
		flags = flagForget
	} else {
		if w.KeepDue {
			flags |= flagKeepDue
		} else if due != Never {
			flags |= flagDue
		}
		if w.Snapshot != nil {
			flags |= flagSnapshot
		}
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, uint64(len(w.Scope)))
	b = append(b, w.Scope...)
	b = binary.AppendUvarint(b, w.Expect)
	if w.Forget {
		return b
	}
	b = binary.AppendUvarint(b, version)
	if flags&flagDue != 0 {
		b = binary.AppendVarint(b, due)
	}
	if flags&flagSnapshot != 0 {
		b = appendInput(b, w.Snapshot)
	}
	n := 0
	for _, in := range w.Inputs {
		n += inputSize(in)
	}
	b = binary.AppendUvarint(b, uint64(n))
	for _, in := range w.Inputs {
		b = appendInput(b, in)
	}
	return b
}

// dueOf is t in Unix milliseconds, or Never.
func dueOf(t time.Time) int64 {
	if t.IsZero() {
		return Never
	}
	return min(t.UnixMilli(), Never-1)
}

func appendInput(b, in []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(in))), in...)
}

func inputSize(in []byte) int {
	n := 1
	for l := len(in); l >= 0x80; l >>= 7 {
		n++
	}
	return n + len(in)
}

// decode calls f with each change of a record, and returns the tag of the one
// before it. An error is [attend.ErrCorrupt] or [attend.ErrNewer].
func decode(seq uint64, body []byte, f func(*change) error) (prev uint64, err error) {
	bad := func(what string) error {
		return fmt.Errorf("journal record %d: %s: %w", seq, what, attend.ErrCorrupt)
	}
	switch {
	case len(body) < recordStart:
		return 0, bad("cut off")
	case body[0] > recordVersion:
		return 0, fmt.Errorf("journal record %d has format %d, this release knows %d: %w", seq, body[0], recordVersion, attend.ErrNewer)
	case body[0] != recordVersion:
		return 0, bad("unknown format")
	case uint64(binary.BigEndian.Uint32(body[1:])) != uint64(len(body)-recordHeader) || len(body) > maxRecord:
		return 0, bad("wrong length")
	case binary.BigEndian.Uint32(body[5:]) != crc32.Checksum(body[recordHeader:], castagnoli):
		return 0, bad("wrong checksum")
	}
	d := &decoder{rest: body[recordStart:]}
	for len(d.rest) > 0 {
		c := d.change()
		if d.bad {
			return 0, bad("unreadable change")
		}
		if err := f(&c); err != nil {
			return 0, err
		}
	}
	return binary.BigEndian.Uint64(body[recordHeader:]), nil
}

// A decoder cuts values off bytes. Once something was wrong it stays so.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) change() (c change) {
	flags := d.byte()
	c.scope = d.bytes()
	c.expect = d.uvarint()
	c.due = Never
	d.bad = d.bad || flags&^flagsKnown != 0
	if flags&flagForget != 0 {
		return c
	}
	c.version = d.uvarint()
	c.keepDue = flags&flagKeepDue != 0
	if flags&flagDue != 0 {
		v, n := binary.Varint(d.rest)
		d.skip(n)
		c.due = v
	}
	if flags&flagSnapshot != 0 {
		c.snap = d.bytes()
	}
	c.inputs = d.bytes()
	d.bad = d.bad || c.version == 0 || c.version > math.MaxInt64 || !validInputs(c.inputs)
	return c
}

func (d *decoder) skip(n int) {
	if n <= 0 || n > len(d.rest) {
		d.bad, d.rest = true, nil
		return
	}
	d.rest = d.rest[n:]
}

func (d *decoder) byte() (b byte) {
	if len(d.rest) > 0 {
		b = d.rest[0]
	}
	d.skip(1)
	return b
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	d.skip(n)
	return v
}

func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

// validInputs reports whether b is inputs, each behind its length.
func validInputs(b []byte) bool {
	d := &decoder{rest: b}
	for len(d.rest) > 0 {
		d.bytes()
	}
	return !d.bad
}
