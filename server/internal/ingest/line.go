package ingest

import (
	"strconv"
	"time"
	"unicode/utf8"

	attend "github.com/attend-go/attend/core"
)

// A verb is what a line asks for.
type verb int

const (
	verbEvent verb = iota
	verbFlush
	verbEnd
)

// An item is what a line says. Its bytes are the line's or its decoder's, until
// that reads the next.
type item struct {
	verb                        verb
	scope, id, name, text, data []byte
	at                          time.Time
}

// A format reads one item. A nil reason: it is one, as far as can be told
// without the engine. Beside a reason there is the scope, if it could be read.
type format interface {
	read(b []byte, it *item) *reason
}

// maxAt is the last millisecond of the year 9999.
const maxAt = 253402300799999

// A lineFormat is attend's own form: an event with its scope, or a flush or an
// end of a scope. Members of other names are passed over, source and kind too,
// which are attend's own to set. null stands for a member that is absent, but
// for data, which may be any value. No member may come twice: who reads the
// first and who reads the last would see two events.
type lineFormat struct {
	noun    string // what an item is called: "line"
	scratch []byte // strings that had escapes
	object  object
}

const (
	fieldScope = iota
	fieldID
	fieldAt
	fieldName
	fieldData
	fieldText
	fieldFlush
	fieldEnd
	fieldCount
)

func fieldOf(key []byte) int {
	switch string(key) {
	case "scope":
		return fieldScope
	case "id":
		return fieldID
	case "at":
		return fieldAt
	case "name":
		return fieldName
	case "data":
		return fieldData
	case "text":
		return fieldText
	case "flush":
		return fieldFlush
	case "end":
		return fieldEnd
	default:
		return fieldCount
	}
}

func (f *lineFormat) read(b []byte, it *item) *reason {
	*it = item{}
	o := &f.object
	if !o.begin(b) {
		return f.broken(wants(f.noun, "one JSON object"))
	}
	if cap(f.scratch) < len(b) {
		f.scratch = make([]byte, 0, len(b))
	}
	f.scratch = f.scratch[:0]
	var (
		m          member
		seen       [fieldCount]bool
		flush, end bool
		first      *reason // the line is read to its end: the scope may come last
	)
	note := func(r *reason) {
		if first == nil {
			first = r
		}
	}
	for o.next(&m) {
		n := fieldOf(m.key)
		if n == fieldCount {
			if !m.sound() {
				return f.broken(nil)
			}
			continue
		}
		if seen[n] {
			note(wants(string(m.key), "it once, it comes twice"))
			continue
		}
		seen[n] = true
		switch n {
		case fieldScope:
			note(f.str(&it.scope, &m, true))
		case fieldID:
			note(f.str(&it.id, &m, true))
		case fieldName:
			note(f.str(&it.name, &m, true))
		case fieldText:
			note(f.str(&it.text, &m, false))
		case fieldData:
			it.data = m.value
		case fieldAt:
			note(moment(&it.at, &m))
		case fieldFlush:
			note(boolean(&flush, &m))
		case fieldEnd:
			note(boolean(&end, &m))
		}
	}
	if o.bad > 0 {
		it.scope = nil
		return f.broken(nil)
	}
	if first != nil {
		return first
	}
	switch {
	case flush && end:
		return wants("end", "either flush or end")
	case flush:
		it.verb = verbFlush
	case end:
		it.verb = verbEnd
	default:
		return nil
	}
	for _, x := range [...]struct {
		name string
		has  bool
	}{{"id", it.id != nil}, {"name", it.name != nil}, {"data", seen[fieldData]}, {"text", it.text != nil}} {
		if x.has {
			return wants(x.name, "no event beside flush or end")
		}
	}
	return nil
}

// broken is the reason of a line that is no JSON; or is what there is to say
// where it is JSON, but something else.
func (f *lineFormat) broken(or *reason) *reason {
	o := &f.object
	switch {
	case o.too != nil:
		return deep(o.too, fieldOf(o.too) != fieldCount, f.noun)
	case or != nil:
		return or
	case o.bad > 0:
		return wants(f.noun, "one JSON object; it breaks at byte "+strconv.Itoa(o.bad))
	default:
		return wants(f.noun, "one JSON object; a member is broken")
	}
}

// deep is the reason of an item with a member that nests too deep.
func deep(key []byte, known bool, noun string) *reason {
	if known {
		noun = string(key)
	}
	return wants(noun, "at most "+strconv.Itoa(attend.MaxDataDepth)+" levels of nesting")
}

// str reads a string. Nothing in a name may be mended: two names must not become
// one.
func (f *lineFormat) str(to *[]byte, m *member, name bool) *reason {
	if m.null() {
		return nil
	}
	if m.kind != '"' {
		return wants(string(m.key), "a string")
	}
	s, whole := m.inner(), true
	if !m.plain {
		from, ok := len(f.scratch), false
		if f.scratch, ok, whole = unquote(f.scratch, s); !ok {
			return wants(string(m.key), "a JSON string without broken escapes")
		}
		s = f.scratch[from:]
	}
	if name && !(whole && utf8.Valid(s)) {
		return wants(string(m.key), "valid UTF-8")
	}
	*to = s[:len(s):len(s)]
	return nil
}

func boolean(to *bool, m *member) *reason {
	switch m.kind {
	case 't':
		*to = true
	case 'f', 'n':
	default:
		return wants(string(m.key), "true or false")
	}
	return nil
}

func moment(to *time.Time, m *member) *reason {
	if m.null() {
		return nil
	}
	at, err := strconv.ParseInt(string(m.value), 10, 64)
	if err != nil || at < 0 || at > maxAt {
		return wants(string(m.key), "Unix time in whole milliseconds, from 1970 to 9999")
	}
	if at > 0 {
		*to = time.UnixMilli(at)
	}
	return nil
}
