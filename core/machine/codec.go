package machine

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
)

// The encoding of states and inputs: two bytes, the version of the encoding and
// the version of the rules that wrote it, and then the fields in the order in
// which codec_state.go and codec_input.go name them. Numbers are varints,
// strings have their length before them, closed sets are places in their list.
// testdata/bytes holds what each version wrote, for ever.
const encoding = 1

var (
	kinds   = append([]attend.Kind{""}, attend.Kinds()...) // "": of a rejected event
	routes  = attend.AllRoutes()
	reasons = append([]attend.Reason{""}, attend.Reasons()...)
	stages  = []attend.Stage{"", attend.StageIntake, attend.StageJudge, attend.StageSink}
)

// An encoder appends to b. What it is given is valid, so it can't fail.
type encoder struct{ b []byte }

// newEncoder appends to b, which gets room for size bytes first.
func newEncoder(b []byte, size int) encoder {
	return encoder{append(slices.Grow(b, size), encoding, Rules)}
}

func (e *encoder) byte(c byte)     { e.b = append(e.b, c) }
func (e *encoder) uint(n uint64)   { e.b = binary.AppendUvarint(e.b, n) }
func (e *encoder) count(n int)     { e.uint(uint64(n)) }
func (e *encoder) moment(m ms)     { e.b = binary.AppendVarint(e.b, int64(m)) }
func (e *encoder) fixed(n uint64)  { e.b = binary.LittleEndian.AppendUint64(e.b, n) }
func (e *encoder) float(f float64) { e.fixed(math.Float64bits(f)) }

func (e *encoder) duration(d time.Duration) { e.uint(uint64(d / time.Millisecond)) }

func (e *encoder) str(s string) {
	e.count(len(s))
	e.b = append(e.b, s...)
}

func (e *encoder) bytes(b []byte) {
	e.count(len(b))
	e.b = append(e.b, b...)
}

func (e *encoder) flag(b bool) {
	if b {
		e.byte(1)
	} else {
		e.byte(0)
	}
}

// place encodes a member of a closed set; what is none counts as the first.
func place[T comparable](e *encoder, set []T, v T) { e.byte(byte(max(slices.Index(set, v), 0))) }

// event encodes an event without its source; times count from base.
func (e *encoder) event(v *attend.Event, base ms) {
	e.str(v.ID)
	e.str(v.Name)
	if v.Kind.Valid() {
		place(e, kinds, v.Kind)
	} else {
		place(e, kinds, "")
	}
	e.flag(!v.At.IsZero())
	if !v.At.IsZero() {
		e.moment(moment(v.At) - base)
	}
	e.bytes(v.Data)
	e.str(v.Text)
}

// entry encodes what event would, of an event that is packed.
func (e *encoder) entry(v *entry, base ms) {
	e.str(v.id())
	e.str(v.packed[v.name:v.data])
	e.byte(v.kind)
	e.flag(v.dated)
	if v.dated {
		e.moment(v.at - base)
	}
	e.str(v.packed[v.data:v.txt])
	e.str(v.packed[v.txt:])
}

func (e *encoder) judgment(j attend.Judgment) {
	place(e, routes, j.Route)
	var given byte
	for i, r := range routes {
		if _, ok := j.Probabilities[r]; ok {
			given |= 1 << i
		}
	}
	e.byte(given)
	for i, r := range routes {
		if given>>i&1 == 1 {
			e.float(j.Probabilities[r])
		}
	}
	e.count(len(j.Predicates))
	for _, name := range slices.Sorted(maps.Keys(j.Predicates)) {
		e.str(name)
		e.float(j.Predicates[name])
	}
	e.float(j.Confidence)
}

// A decoder takes b apart. The first thing that is wrong stays in err, and
// everything after it reads as zero.
type decoder struct {
	b   []byte
	err error
}

// newDecoder checks the two version bytes.
func newDecoder(b []byte, what string) *decoder {
	d := &decoder{b: b}
	switch v, r := d.byte(), d.byte(); {
	case d.err != nil:
	case v > encoding || r > Rules:
		d.err = fmt.Errorf("machine: %s: encoding %d of rules %d: %w", what, v, r, attend.ErrNewer)
		d.b = nil
	case v < 1 || r < 1:
		d.fail("no version")
	}
	return d
}

func (d *decoder) fail(why string) {
	if d.err == nil {
		d.err = fmt.Errorf("machine: %s, %d bytes before the end: %w", why, len(d.b), attend.ErrCorrupt)
	}
	d.b = nil
}

// end reports what was wrong, and that nothing is left.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.fail("bytes left over")
	}
	return d.err
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.fail("cut short")
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uint() uint64 {
	n, k := binary.Uvarint(d.b)
	if k <= 0 {
		d.fail("bad number")
		return 0
	}
	d.b = d.b[k:]
	return n
}

// count reads a number of things that take at least size bytes each, so that
// nobody is made to reserve room for what isn't there.
func (d *decoder) count(size int) int {
	n := d.uint()
	if n > uint64(len(d.b)/size) {
		d.fail("bad count")
		return 0
	}
	return int(n)
}

// number reads a count of things that are not here.
func (d *decoder) number() int {
	n := d.uint()
	if n > 1<<40 {
		d.fail("bad number")
		return 0
	}
	return int(n)
}

const farthest = ms(1) << 50 // some 35,000 years from 1970, either way

func (d *decoder) moment() ms {
	n, k := binary.Varint(d.b)
	if k <= 0 || ms(n) > farthest || ms(n) < -farthest {
		d.fail("bad time")
		return 0
	}
	d.b = d.b[k:]
	return ms(n)
}

func (d *decoder) fixed() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) float() float64 { return math.Float64frombits(d.fixed()) }

func (d *decoder) duration() time.Duration {
	n := d.uint()
	if n > uint64(maxDuration/time.Millisecond) {
		d.fail("bad duration")
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

func (d *decoder) str() string { return string(d.take(d.count(1))) }

func (d *decoder) flag() bool {
	c := d.byte()
	if c > 1 {
		d.fail("bad flag")
	}
	return c == 1
}

func member[T any](d *decoder, set []T) T {
	i := int(d.byte())
	if i >= len(set) {
		d.fail("bad member of a set")
		i = 0
	}
	return set[i]
}

func (d *decoder) event(base ms) attend.Event {
	var v attend.Event
	v.ID = d.str()
	v.Name = d.str()
	v.Kind = member(d, kinds)
	if d.flag() {
		v.At = time.UnixMilli(int64(d.moment() + base))
	}
	v.Data = slices.Clone(d.take(d.count(1)))
	v.Text = d.str()
	return v
}

func (d *decoder) judgment() attend.Judgment {
	j := d.answer()
	if d.err == nil && wrong(j, routes) != "" {
		d.fail("bad judgment")
	}
	return j
}

// answer reads a judgment as a judge gave it, right or wrong: Step says that it
// is wrong (E13), and a replay must too.
func (d *decoder) answer() attend.Judgment {
	var j attend.Judgment
	if i := int(d.byte()); i < len(routes) {
		j.Route = routes[i]
	}
	given := d.byte()
	if given != 0 {
		j.Probabilities = make(map[attend.Route]float64, len(routes))
	}
	for i, r := range routes {
		if given>>i&1 == 1 {
			j.Probabilities[r] = d.float()
		}
	}
	if given>>len(routes) != 0 {
		j.Probabilities[""] = 0 // of a route that there is not
	}
	if n := d.count(9); n > 0 {
		j.Predicates = make(map[string]float64, n)
		for range n {
			name := d.str()
			j.Predicates[name] = d.float()
		}
	}
	j.Confidence = d.float()
	return j
}
