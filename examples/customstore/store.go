package customstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A Store is an [attend.ScopeStore] in a folder, and its own decision log,
// which is polled.
type Store struct {
	dir string

	mu     sync.Mutex
	closed bool
	failed bool   // what follows may not be what the folder holds
	files  uint64 // the number of the newest
	scopes map[attend.Scope]record
	rows   []attend.Entry // by position
	log    attend.Bounds
}

// A record is one scope. Version 0: it is gone.
type record struct {
	attend.Record
	Due time.Time // zero: never
}

// A change is one file: what one call changed, or in a full one all there is.
type change struct {
	Full   bool
	Scopes map[attend.Scope]record
	Rows   []attend.Entry // new ones, by position
	Log    attend.Bounds  // rows that it says are trimmed are gone
}

// Open returns the store in dir, and makes one if there is none.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir}
	if err := errors.Join(os.MkdirAll(dir, 0o755), s.read()); err != nil {
		return nil, fmt.Errorf("customstore: open: %w", err)
	}
	return s, nil
}

// Close ends the store. The files stay.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// read goes through the folder's changes, oldest first, and puts one in their
// place.
func (s *Store) read() error {
	s.apply(change{Full: true, Log: attend.Bounds{Epoch: rand.Text()}})
	files, err := os.ReadDir(s.dir) // by name, so by number
	if err != nil {
		return err
	}
	var old []string
	for _, f := range files {
		if _, err := fmt.Sscanf(f.Name(), "%020d.json", &s.files); err != nil {
			continue // one that never got its name
		}
		name := filepath.Join(s.dir, f.Name())
		old = append(old, name)
		var c change
		b, err := os.ReadFile(name)
		if err = cmp.Or(err, json.Unmarshal(b, &c)); err != nil {
			return err
		}
		s.apply(c)
	}
	err = s.commit(change{Full: true, Scopes: s.scopes, Rows: s.rows, Log: s.log})
	for _, name := range old {
		if err == nil {
			os.Remove(name) // one that stays does no harm
		}
	}
	return err
}

// commit makes a change last: all of it lands when its file gets its name.
// Where that fails the folder alone knows, and the next call reads it.
func (s *Store) commit(c change) error {
	s.failed = true
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	temp := filepath.Join(s.dir, "new")
	if err := os.WriteFile(temp, b, 0o644); err != nil {
		return err
	}
	if err := flush(temp); err != nil {
		return err
	}
	s.files++
	if err := os.Rename(temp, filepath.Join(s.dir, fmt.Sprintf("%020d.json", s.files))); err != nil {
		return err
	}
	s.apply(c)
	err = flush(s.dir)
	s.failed = err != nil
	return err
}

func (s *Store) apply(c change) {
	if c.Full {
		s.scopes, s.rows = make(map[attend.Scope]record), nil
	}
	for scope, r := range c.Scopes {
		if s.scopes[scope] = r; r.Version == 0 {
			delete(s.scopes, scope)
		}
	}
	s.rows, s.log = append(s.rows, c.Rows...), c.Log
	s.rows = slices.DeleteFunc(s.rows, func(e attend.Entry) bool {
		return e.Cursor.Position <= s.log.Low(attend.Query{Types: []attend.RowType{e.Type}})
	})
}

func flush(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// locked calls f under the lock, and says whose error it is.
func locked[T any](ctx context.Context, s *Store, f func() (T, error)) (out T, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err = ctx.Err(); s.closed {
		err = attend.ErrClosed
	} else if err == nil && s.failed {
		err = s.read()
	}
	if err == nil {
		out, err = f()
	}
	if err != nil {
		err = fmt.Errorf("customstore: %w", err)
	}
	return out, err
}

// each yields what f finds, once the lock is gone.
func each[T any](ctx context.Context, s *Store, f func() ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		found, err := locked(ctx, s, f)
		for _, x := range found {
			if !yield(x, nil) {
				return
			}
		}
		if err != nil {
			yield(*new(T), err)
		}
	}
}

func clone(e attend.Entry) attend.Entry {
	e.Body = bytes.Clone(e.Body)
	return e
}

// Load implements [attend.ScopeStore].
func (s *Store) Load(ctx context.Context, scope attend.Scope) (attend.Record, error) {
	return locked(ctx, s, func() (attend.Record, error) { return s.scopes[scope].clone().Record, nil })
}

// Commit implements [attend.ScopeStore].
func (s *Store) Commit(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
	return locked(ctx, s, func() ([]attend.Outcome, error) {
		out := make([]attend.Outcome, len(writes))
		c := change{Scopes: make(map[attend.Scope]record), Log: s.log}
		for i, w := range writes {
			r := s.scopes[w.Scope]
			if r.Version != w.Expect {
				continue // a conflict
			}
			r = r.with(w)
			c.Scopes[w.Scope], out[i].Version = r, max(r.Version, 1)
			for _, row := range w.Rows {
				c.Log.Newest++
				at := attend.LogCursor{Epoch: s.log.Epoch, Position: c.Log.Newest}
				c.Rows = append(c.Rows, clone(attend.Entry{Cursor: at, Row: row}))
			}
		}
		if len(c.Scopes) == 0 {
			return out, nil
		}
		return out, s.commit(c)
	})
}

// with is the record after a write.
func (r record) with(w attend.Write) record {
	if w.Forget {
		return record{}
	}
	if r.Version++; w.Expect == 0 {
		r.Version = mathrand.Uint64N(1<<62) + 1
	}
	if w.Snapshot != nil {
		r.Snapshot, r.Tail = w.Snapshot, nil
	}
	r.Tail = slices.Concat(r.Tail, w.Inputs)
	if !w.KeepDue {
		r.Due = w.Due
	}
	return r.clone()
}

// clone shares no bytes with r, nor with who handed them in or gets them.
func (r record) clone() record {
	r.Snapshot, r.Tail = bytes.Clone(r.Snapshot), slices.Clone(r.Tail)
	for i, in := range r.Tail {
		r.Tail[i] = bytes.Clone(in)
	}
	return r
}

// Due implements [attend.ScopeStore].
func (s *Store) Due(ctx context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
	return each(ctx, s, func() (due []attend.Scope, err error) {
		for scope, r := range s.scopes {
			if !r.Due.IsZero() && !r.Due.After(now) {
				due = append(due, scope)
			}
		}
		slices.SortFunc(due, func(a, b attend.Scope) int { return s.scopes[a].Due.Compare(s.scopes[b].Due) })
		return due, nil
	})
}

// Remove implements [attend.ScopeStore].
func (s *Store) Remove(ctx context.Context, scope attend.Scope) error {
	_, err := locked(ctx, s, func() (any, error) {
		return nil, s.commit(change{Scopes: map[attend.Scope]record{scope: {}}, Log: s.log})
	})
	return err
}

// Log implements [attend.ScopeStore].
func (s *Store) Log() attend.DecisionLog { return s }

// Bounds implements [attend.DecisionLog].
func (s *Store) Bounds(ctx context.Context) (attend.Bounds, error) {
	return locked(ctx, s, func() (attend.Bounds, error) { return s.log, nil })
}

// Read implements [attend.DecisionLog].
func (s *Store) Read(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
	return each(ctx, s, func() (found []attend.Entry, err error) {
		if err := s.log.Check(q); err != nil {
			return nil, err
		}
		for _, e := range s.rows {
			if e.Cursor.Position > q.After.Position && q.Wants(e.Type) && q.Prefix.Covers(e.Scope) {
				found = append(found, clone(e))
			}
		}
		return found, nil
	})
}

// Find implements [attend.DecisionLog].
func (s *Store) Find(ctx context.Context, id attend.DecisionID, t attend.RowType) (attend.Entry, error) {
	return locked(ctx, s, func() (attend.Entry, error) {
		for _, e := range slices.Backward(s.rows) {
			if e.ID == id && (e.Type == t || t == "" && e.Type == attend.RowDecision) {
				return clone(e), nil
			}
		}
		return attend.Entry{}, attend.ErrNotFound
	})
}

// Trim implements [attend.DecisionLog].
func (s *Store) Trim(ctx context.Context, keep attend.Retain, now time.Time) error {
	_, err := locked(ctx, s, func() (any, error) {
		log, newer := s.log, make(map[*attend.Position]int)
		for _, e := range slices.Backward(s.rows) {
			trimmed, limit := &log.Trimmed, keep.Count
			if e.Type == attend.RowVerdict {
				trimmed, limit = &log.TrimmedVerdicts, keep.Verdicts
			}
			newer[trimmed]++
			if limit > 0 && newer[trimmed] > limit || keep.Age > 0 && e.At.Before(now.Add(-keep.Age)) {
				*trimmed = max(*trimmed, e.Cursor.Position)
			}
		}
		return nil, s.commit(change{Log: log})
	})
	return err
}
