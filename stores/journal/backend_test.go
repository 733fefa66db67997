package journal_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/stores/journal"
)

// A backend keeps everything in memory. A write transaction changes it in place
// and remembers how to take that back.
type backend struct {
	mu      sync.RWMutex
	oldest  uint64
	records [][]byte // from oldest on
	tags    map[uint64]uint64
	states  map[attend.Scope]journal.State
	due     []journal.DueKey // in order
	rows    *memory.Store
	nrows   int

	puts, deletes int // of folded states
	drops         int
	alone         bool                        // Beside has no answer
	put           []attend.Scope              // as in puts
	lock          func(context.Context) error // waits for the lock of an Update; nil: it is free
	fault         func() fault                // asked for each Update; nil: none
	landed        func()                      // called when an Update has landed, before it returns
	viewed        func()                      // called when a View has its moment, before it reads
}

// A fault is what goes wrong with one Update.
type fault int

const (
	none   fault = iota
	before       // it fails and nothing lands
	lost         // it lands and the answer is lost
	twice        // its function is called again
)

var errFault = errors.New("the disk is on fire")

func newBackend() *backend {
	return &backend{oldest: 1, tags: make(map[uint64]uint64), states: make(map[attend.Scope]journal.State), rows: memory.New()}
}

func (b *backend) newest() uint64 { return b.oldest + uint64(len(b.records)) - 1 }

func (b *backend) Update(ctx context.Context, f func(journal.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.lock != nil {
		if err := b.lock(ctx); err != nil {
			return err
		}
	}
	err := b.update(f)
	if b.landed != nil && (err == nil || errors.Is(err, errFault)) {
		b.landed()
	}
	return err
}

func (b *backend) update(f func(journal.Tx) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	what := none
	if b.fault != nil {
		what = b.fault()
	}
	if what == twice {
		t := &tx{reader: reader{b}}
		if err := f(t); err != nil {
			t.rollback()
			return fmt.Errorf("backend: %w", err)
		}
		t.rollback()
	}
	t := &tx{reader: reader{b}}
	if err := f(t); err != nil {
		t.rollback()
		return fmt.Errorf("backend: %w", err)
	}
	if what == before {
		t.rollback()
		return errFault
	}
	if len(t.rows) > 0 {
		b.nrows++
		w := attend.Write{Scope: attend.Scope(fmt.Sprint("rows-", b.nrows)), Rows: t.rows}
		if _, err := b.rows.Commit(context.Background(), []attend.Write{w}); err != nil {
			panic(err)
		}
	}
	if what == lost {
		return errFault
	}
	return nil
}

func (b *backend) View(ctx context.Context, f func(journal.Reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.RLock()
	at := b
	if b.viewed != nil {
		at = b.clone()
		b.mu.RUnlock()
		b.viewed()
	} else {
		defer b.mu.RUnlock()
	}
	if err := f(reader{at}); err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	return nil
}

// clone copies all but the rows.
func (b *backend) clone() *backend {
	return &backend{oldest: b.oldest, records: b.records, tags: maps.Clone(b.tags), states: maps.Clone(b.states), due: slices.Clone(b.due)}
}

// restore puts a clone in place.
func (b *backend) restore(from *backend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := from.clone()
	b.oldest, b.records, b.tags, b.states, b.due = c.oldest, c.records, c.tags, c.states, c.due
}

type reader struct{ b *backend }

func (r reader) Bounds() (journal.Bounds, error) {
	b := journal.Bounds{Oldest: r.b.oldest, Newest: r.b.newest()}
	if len(r.b.records) > 0 {
		b.Tag = r.b.tags[b.Newest]
	}
	return b, nil
}

// Records yields from one buffer, so that nobody gets away with keeping it.
func (r reader) Records(seq uint64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		var buf []byte
		for i, body := range r.b.records {
			at := r.b.oldest + uint64(i)
			if at <= seq {
				continue
			}
			clear(buf)
			buf = append(buf[:0], body...)
			if !yield(journal.Record{Seq: at, Tag: r.b.tags[at], Body: buf}, nil) {
				break
			}
		}
		clear(buf)
	}
}

func (r reader) Head(scope attend.Scope) (journal.Head, error) { return r.b.states[scope].Head, nil }

func (r reader) State(scope attend.Scope) (journal.State, error) { return r.b.states[scope], nil }

// Beside is the names before and behind.
func (r reader) Beside(scope attend.Scope) (found []attend.Scope, err error) {
	if r.b.alone {
		return nil, nil
	}
	var before, behind *attend.Scope
	for name := range r.b.states {
		switch {
		case name < scope && (before == nil || name > *before):
			before = &name
		case name > scope && (behind == nil || name < *behind):
			behind = &name
		}
	}
	for _, name := range []*attend.Scope{before, behind} {
		if name != nil {
			found = append(found, *name)
		}
	}
	return found, nil
}

func compareKeys(a, b journal.DueKey) int {
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Scope, b.Scope))
}

func (r reader) Due(after journal.DueKey, upTo int64, page []journal.DueKey) ([]journal.DueKey, error) {
	i, found := slices.BinarySearchFunc(r.b.due, after, compareKeys)
	if found {
		i++
	}
	for ; i < len(r.b.due) && r.b.due[i].At <= upTo && len(page) < cap(page); i++ {
		page = append(page, r.b.due[i])
	}
	return page, nil
}

type tx struct {
	reader
	undo []func()
	rows []attend.Row
}

func (t *tx) rollback() {
	for _, f := range slices.Backward(t.undo) {
		f()
	}
}

func (t *tx) Append(tag uint64, body []byte) (uint64, error) {
	b, was := t.b, t.b.records
	b.records = append(slices.Clip(b.records), bytes.Clone(body))
	b.tags[b.newest()] = tag
	t.undo = append(t.undo, func() { b.records = was })
	return b.newest(), nil
}

func (t *tx) Drop(seq uint64) error {
	b, was, oldest := t.b, t.b.records, t.b.oldest
	for b.oldest < seq && len(b.records) > 0 {
		b.records, b.oldest = b.records[1:], b.oldest+1
		b.drops++
	}
	t.undo = append(t.undo, func() { b.records, b.oldest = was, oldest })
	return nil
}

func (t *tx) set(scope attend.Scope, s journal.State) {
	b := t.b
	was, known := b.states[scope]
	if known && was.Due != journal.Never {
		i, found := slices.BinarySearchFunc(b.due, journal.DueKey{At: was.Due, Scope: scope}, compareKeys)
		if !found {
			panic("not in the index")
		}
		b.due = slices.Delete(b.due, i, i+1)
	}
	if s.Version == 0 {
		delete(b.states, scope)
		return
	}
	b.states[scope] = s
	if s.Due != journal.Never {
		k := journal.DueKey{At: s.Due, Scope: scope}
		i, _ := slices.BinarySearchFunc(b.due, k, compareKeys)
		b.due = slices.Insert(b.due, i, k)
	}
}

func (t *tx) Put(scope attend.Scope, s journal.State) error {
	if s.Version == 0 || s.Seq > t.b.newest() {
		panic(fmt.Sprintf("Put of a state at version %d, record %d", s.Version, s.Seq))
	}
	was := t.b.states[scope]
	s.Body = bytes.Clone(s.Body)
	t.set(scope, s)
	t.b.puts++
	t.b.put = append(t.b.put, scope)
	t.undo = append(t.undo, func() { t.set(scope, was) })
	return nil
}

func (t *tx) Delete(scope attend.Scope) error {
	was := t.b.states[scope]
	t.set(scope, journal.State{})
	t.b.deletes++
	t.undo = append(t.undo, func() { t.set(scope, was) })
	return nil
}

func (t *tx) AppendRows(rows []attend.Row) error {
	t.rows = append(t.rows, rows...)
	return nil
}

// A store is a Journal and the backend's log.
type store struct {
	*journal.Journal
	b   *backend
	log attend.ScopeStore
}

func open(b *backend, budget int) (*store, error) {
	j, err := journal.Open(context.Background(), b, journal.Config{Budget: budget})
	return &store{j, b, b.rows.Reopen()}, err
}

func (s *store) Log() attend.DecisionLog { return s.log.Log() }

func (s *store) Close() error {
	s.Journal.Close()
	return s.log.(*memory.Store).Close()
}
