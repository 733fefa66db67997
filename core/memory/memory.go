package memory

import (
	"context"
	"encoding/binary"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
)

// Options says how much a store or an event log keeps. The zero Options keeps
// everything.
type Options struct {
	// Retain is applied in small steps, with the writes that add to the log, so
	// that a log may hold a little more for a while. In a [Store] an age counts
	// from the newest row's time, not from a clock; in an [EventLog] from the
	// moment an event was appended, and Count is of all events of the log.
	Retain attend.Retain
}

// A Store is an [attend.ScopeStore] in memory: one handle on its data, as one
// process holds it. Its methods may be called from many goroutines at once.
type Store struct {
	d    *data
	log  decisionLog
	done chan struct{} // closed by Close
}

// data is what all handles share.
type data struct {
	mu     sync.Mutex
	scopes map[attend.Scope]*record
	due    dueIndex
	rows   rows
}

// A record is one scope. What it keeps is one piece of memory, which a scope's
// later writes use again; so Load copies it, under the lock.
type record struct {
	scope   attend.Scope
	version uint64
	due     int64  // in Unix milliseconds, or never
	snap    int    // how many bytes of kept are the snapshot; -1: there is none
	kept    []byte // the snapshot, then each input behind its length
}

// never is the due time of a scope that is not in the index.
const never = math.MaxInt64

// New returns an empty store that keeps every row of its log.
func New() *Store { return NewWith(Options{}) }

// NewWith returns an empty store with options.
func NewWith(o Options) *Store {
	return handle(&data{scopes: make(map[attend.Scope]*record), rows: newRows(o.Retain)})
}

func handle(d *data) *Store {
	s := &Store{d: d, done: make(chan struct{})}
	s.log.s = s
	return s
}

// Reopen returns another handle on the same data, as another process would
// hold it, or this one after a restart: s may be closed already, and closing
// one handle leaves the others alive.
func (s *Store) Reopen() *Store { return handle(s.d) }

// Close ends this handle: every later call and every Wait that blocks answers
// [attend.ErrClosed]. The data lives on while somebody holds another handle.
// Closing it again does nothing. The error is nil.
func (s *Store) Close() error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	select {
	case <-s.done:
	default:
		close(s.done)
	}
	return nil
}

// enter takes the lock, unless the call has no business here any more.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.d.mu.Lock()
	select {
	case <-s.done:
		s.d.mu.Unlock()
		return attend.ErrClosed
	default:
		return nil
	}
}

// Load returns a copy of what is kept of the scope, as [attend.ScopeStore]
// says.
func (s *Store) Load(ctx context.Context, scope attend.Scope) (attend.Record, error) {
	if err := s.enter(ctx); err != nil {
		return attend.Record{}, err
	}
	defer s.d.mu.Unlock()
	r := s.d.scopes[scope]
	if r == nil {
		return attend.Record{}, nil
	}
	return r.load(), nil
}

// Commit applies the writes, as [attend.ScopeStore] says. Its error is ctx's,
// or [attend.ErrClosed], and nothing was applied then.
func (s *Store) Commit(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
	out := make([]attend.Outcome, len(writes))
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.d.mu.Unlock()
	for i := range writes {
		out[i].Version = s.d.apply(&writes[i])
	}
	return out, nil
}

// apply returns the scope's new version, 0 for a conflict.
func (d *data) apply(w *attend.Write) uint64 {
	r := d.scopes[w.Scope]
	if r == nil && w.Expect != 0 || r != nil && r.version != w.Expect {
		return 0
	}
	if w.Forget {
		d.forget(r)
		d.rows.append(w.Rows)
		return max(w.Expect, 1)
	}
	if r == nil {
		// A scope that was removed leaves nothing behind, so that the number of
		// scopes that ever were costs no memory. A version drawn at random keeps
		// a writer that slept since then from landing on the new life.
		r = &record{scope: attend.Scope(strings.Clone(string(w.Scope))), version: rand.Uint64N(1<<62-1) + 1, due: never, snap: -1}
		d.scopes[r.scope] = r
	} else {
		r.version++
	}
	r.keep(w)
	if !w.KeepDue {
		d.setDue(r, w.Due)
	}
	d.rows.append(w.Rows)
	return r.version
}

// keep copies the write's bytes behind what is there, or in its place.
func (r *record) keep(w *attend.Write) {
	size := len(w.Snapshot)
	for _, in := range w.Inputs {
		size += len(in) + binary.MaxVarintLen32
	}
	if w.Snapshot != nil {
		if r.kept = r.kept[:0]; cap(r.kept) > 4*size+256 {
			r.kept = nil // a big tail's memory is not for an idle scope to keep
		}
		r.snap = len(w.Snapshot)
	}
	r.kept = append(slices.Grow(r.kept, size), w.Snapshot...)
	for _, in := range w.Inputs {
		r.kept = binary.AppendUvarint(r.kept, uint64(len(in)))
		r.kept = append(r.kept, in...)
	}
}

// load cuts one copy into pieces that can't grow into each other.
func (r *record) load() attend.Record {
	rec := attend.Record{Version: r.version}
	rest := append([]byte{}, r.kept...)
	if r.snap >= 0 {
		rec.Snapshot, rest = rest[:r.snap:r.snap], rest[r.snap:]
	}
	n := 0
	for b := rest; len(b) > 0; n++ {
		_, b = cut(b)
	}
	if n > 0 {
		rec.Tail = make([][]byte, n)
		for i := range rec.Tail {
			rec.Tail[i], rest = cut(rest)
		}
	}
	return rec
}

// cut splits the first input off b.
func cut(b []byte) (in, rest []byte) {
	n, k := binary.Uvarint(b)
	end := k + int(n)
	return b[k:end:end], b[end:]
}

func (d *data) setDue(r *record, due time.Time) {
	at := int64(never)
	if !due.IsZero() {
		at = due.UnixMilli()
	}
	if at == r.due {
		return
	}
	if r.due != never {
		d.due.remove(dueKey{r.due, r.scope})
	}
	if at != never {
		d.due.insert(dueKey{at, r.scope})
	}
	r.due = at
}

// forget drops the scope; its log rows stay.
func (d *data) forget(r *record) {
	if r != nil {
		d.setDue(r, time.Time{})
		delete(d.scopes, r.scope)
	}
}

// Remove forgets the scope, as [attend.ScopeStore] says.
func (s *Store) Remove(ctx context.Context, scope attend.Scope) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.d.mu.Unlock()
	s.d.forget(s.d.scopes[scope])
	return nil
}

// pageSize is how much an iterator takes at a time.
const pageSize = 100

// Due yields the scopes that are due, as [attend.ScopeStore] says. It takes 100
// at a time, each page from behind the last one's place in the index; what a
// page costs doesn't depend on how many scopes there are.
func (s *Store) Due(ctx context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
	return func(yield func(attend.Scope, error) bool) {
		page := make([]dueKey, 0, pageSize)
		after := dueKey{at: math.MinInt64}
		for {
			if err := s.enter(ctx); err != nil {
				yield("", err)
				return
			}
			page = s.d.due.page(after, now.UnixMilli(), page[:0])
			s.d.mu.Unlock()
			for _, k := range page {
				if !yield(k.scope, nil) {
					return
				}
			}
			if len(page) < pageSize {
				return
			}
			after = page[len(page)-1]
		}
	}
}

// Log returns this handle's decision log. It is an [attend.Waiter].
func (s *Store) Log() attend.DecisionLog { return &s.log }
