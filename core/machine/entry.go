package machine

import (
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
)

// An entry is an event in a window. It never changes. The event is packed: two
// pieces of memory whatever it is made of, since most of what a process holds
// is entries; and a copy, so that a short id keeps no request of a megabyte
// alive.
type entry struct {
	packed          string // id, name, data and text, one behind the other
	source          string
	name, data, txt uint32 // where in packed each but the first begins
	kind            uint8  // its place in kinds
	dated           bool   // at is set
	size            int32
	at              ms
	taken           ms     // when it was taken in
	order           uint64 // its place among the events of its scope's open window
	hash            uint64 // of its identity
}

// pack makes an entry of an event, all but its place and its hash.
func pack(v *attend.Event, source string, taken ms) *entry {
	e := &entry{
		packed: v.ID + v.Name + string(v.Data) + v.Text,
		source: source, taken: taken, dated: !v.At.IsZero(),
		kind: uint8(max(slices.Index(kinds, v.Kind), 0)),
	}
	e.name = uint32(len(v.ID))
	e.data = e.name + uint32(len(v.Name))
	e.txt = e.data + uint32(len(v.Data))
	if e.dated {
		e.at = ms(v.At.UnixMilli())
	}
	w := attend.Event{ID: v.ID, Name: v.Name, Data: v.Data, Text: v.Text, Source: source, Kind: e.role()}
	e.size = int32(w.Size())
	return e
}

func (e *entry) id() string { return e.packed[:e.name] }

// role is the event's kind, empty for an event that was rejected.
func (e *entry) role() attend.Kind { return kinds[e.kind] }

func (e *entry) ref() attend.EventRef { return attend.EventRef{Source: e.source, ID: e.id()} }

// event unpacks all but the data.
func (e *entry) event() attend.Event {
	v := attend.Event{
		ID: e.id(), Name: e.packed[e.name:e.data], Text: e.packed[e.txt:],
		Source: e.source, Kind: e.role(),
	}
	if e.dated {
		v.At = time.UnixMilli(int64(e.at))
	}
	return v
}

// refs names the events of a list.
func refs(entries []*entry) []attend.EventRef {
	out := make([]attend.EventRef, len(entries))
	for i, e := range entries {
		out[i] = e.ref()
	}
	return out
}

// named unpacks a list, all but the data.
func named(entries []*entry) []attend.Event {
	out := make([]attend.Event, len(entries))
	for i, e := range entries {
		out[i] = e.event()
	}
	return out
}

// events unpacks a list. The caller owns what it gets.
func events(entries []*entry) []attend.Event {
	out, size := named(entries), 0
	for _, e := range entries {
		size += int(e.txt - e.data)
	}
	data := make([]byte, 0, size)
	for i, e := range entries {
		from := len(data)
		if data = append(data, e.packed[e.data:e.txt]...); len(data) > from {
			out[i].Data = data[from:len(data):len(data)]
		}
	}
	return out
}
