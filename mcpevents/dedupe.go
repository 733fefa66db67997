package mcpevents

import (
	"bytes"
	"cmp"
	"container/list"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"
)

// seenHash identifies an event: the beginning of the SHA-256 of its id, so that a
// server's long ids take no room here.
type seenHash [16]byte

// Seen remembers which events of one subscription were taken: a bounded number of
// them, for a bounded time. While a batch is handed over it has the events of that
// batch already, so that it can be kept with them; it forgets them again when the
// consumer leaves there. It encodes to JSON, to be kept beside the cursor. The zero
// one has the bounds of NewSeen(0, 0). It may not be used by several goroutines at
// once.
type Seen struct {
	most  int
	age   time.Duration
	order *list.List // of seenEntry, the oldest first
	index map[seenHash]*list.Element
}

type seenEntry struct {
	hash seenHash
	at   time.Time
}

// NewSeen returns an empty memory of at most most events, zero is 10,000, each
// for age, zero is 7 days.
func NewSeen(most int, age time.Duration) *Seen {
	return &Seen{
		most: cmp.Or(max(most, 0), 10_000), age: cmp.Or(max(age, 0), 7*24*time.Hour),
		order: list.New(), index: map[seenHash]*list.Element{},
	}
}

func hashID(id string) seenHash {
	sum := sha256.Sum256([]byte(id))
	return seenHash(sum[:len(seenHash{})])
}

// ready makes the zero Seen one of NewSeen.
func (s *Seen) ready() {
	if s.order == nil {
		*s = *NewSeen(0, 0)
	}
}

// Has reports whether the event of that id was taken.
func (s *Seen) Has(id string) bool {
	e, ok := s.index[hashID(id)]
	return ok && time.Since(e.Value.(seenEntry).at) < s.age
}

// Add remembers the event of that id as taken now, and forgets the oldest ones
// past the bounds.
func (s *Seen) Add(id string) { s.add(seenEntry{hashID(id), time.Now()}) }

func (s *Seen) add(v seenEntry) {
	if e, ok := s.index[v.hash]; ok {
		s.order.Remove(e)
	}
	s.ready()
	s.index[v.hash] = s.order.PushBack(v)
	for e := s.order.Front(); e != nil && (s.order.Len() > s.most || v.at.Sub(e.Value.(seenEntry).at) >= s.age); e = s.order.Front() {
		s.order.Remove(e)
		delete(s.index, e.Value.(seenEntry).hash)
	}
}

// remove forgets the event of that id.
func (s *Seen) remove(id string) {
	if e, ok := s.index[hashID(id)]; ok {
		s.order.Remove(e)
		delete(s.index, hashID(id))
	}
}

// Len is how many events are remembered.
func (s *Seen) Len() int { return len(s.index) }

// seenJSON is a memory at rest: one string of bytes and the times in
// milliseconds, each beside its hash.
type seenJSON struct {
	Hashes []byte  `json:"hashes"`
	Times  []int64 `json:"times"`
}

// MarshalJSON writes what is remembered, not the bounds.
func (s *Seen) MarshalJSON() ([]byte, error) {
	w := seenJSON{Hashes: []byte{}, Times: []int64{}}
	s.ready()
	for e := s.order.Front(); e != nil; e = e.Next() {
		v := e.Value.(seenEntry)
		w.Hashes, w.Times = append(w.Hashes, v.hash[:]...), append(w.Times, v.at.UnixMilli())
	}
	return json.Marshal(w)
}

// UnmarshalJSON adds what MarshalJSON wrote, within the bounds.
func (s *Seen) UnmarshalJSON(b []byte) error {
	var w seenJSON
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(&w); err != nil {
		return errors.New("mcpevents: what was seen cannot be read")
	}
	const size = len(seenHash{})
	if len(w.Hashes) != size*len(w.Times) {
		return errors.New("mcpevents: what was seen cannot be read")
	}
	for i, ms := range w.Times {
		s.add(seenEntry{seenHash(w.Hashes[i*size : (i+1)*size]), time.UnixMilli(ms)})
	}
	return nil
}
