package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
)

// A killFile is a durable store in one file: a record a group, with its length
// and a checksum, appended and synced. It belongs to one process at a time, and
// what it holds is in memory, too. Its faults make it a wrong one.
type killFile struct {
	fault string

	mu     sync.Mutex
	file   *os.File
	scopes map[attend.Scope]killScope
	rows   []attend.Entry
	log    attend.Bounds
	late   []byte        // records that the file is still to get
	grown  chan struct{} // closed when there are more rows
	closed bool
}

// killSecond stands for the second of a store that syncs once a second.
const killSecond = 50 * time.Millisecond

type killScope struct {
	Record attend.Record
	Due    time.Time
}

// A killRecord is what one group changed.
type killRecord struct {
	Epoch  string // in the first record, and after a loss
	Scopes map[attend.Scope]killScope
	Rows   []attend.Entry
}

func openKillFile(name, fault string) (*killFile, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	s := &killFile{fault: fault, file: f, scopes: make(map[attend.Scope]killScope), grown: make(chan struct{})}
	if err := s.recover(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if strings.HasPrefix(fault, "second") {
		err = s.restarted()
	} else if fault == "epochs" || s.log.Epoch == "" {
		err = s.write(&killRecord{Epoch: rand.Text()})
	}
	if err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	if fault == "due" { // when scopes are due is in memory alone
		for scope, r := range s.scopes {
			r.Due = time.Time{}
			s.scopes[scope] = r
		}
	}
	return s, nil
}

// recover reads the records, and cuts off one that did not get whole.
func (s *killFile) recover() error {
	b, err := io.ReadAll(s.file)
	if err != nil {
		return err
	}
	whole, records := 0, 0
	for len(b)-whole >= 8 {
		n, sum := int(binary.LittleEndian.Uint32(b[whole:])), binary.LittleEndian.Uint32(b[whole+4:])
		if len(b)-whole-8 < n || crc32.ChecksumIEEE(b[whole+8:whole+8+n]) != sum {
			break
		}
		var r killRecord
		if err := gob.NewDecoder(bytes.NewReader(b[whole+8 : whole+8+n])).Decode(&r); err != nil {
			return err
		}
		s.apply(&r)
		whole += 8 + n
		records++
	}
	if whole < len(b) && s.fault == "torn" {
		return errors.New("the last record is not whole")
	}
	if err := s.file.Truncate(int64(whole)); err != nil {
		return err
	}
	if _, err := s.file.Seek(int64(whole), io.SeekStart); err != nil || records < 200 {
		return err
	}
	return s.shorten()
}

// shorten replaces the file by one record.
func (s *killFile) shorten() error {
	b, err := encodeKillRecord(&killRecord{Epoch: s.log.Epoch, Scopes: s.scopes, Rows: s.rows})
	if err != nil {
		return err
	}
	name := s.file.Name()
	f, err := os.Create(name + ".new")
	if err != nil {
		return err
	}
	if _, err := f.Write(b); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), os.Rename(f.Name(), name), s.file.Close()); err != nil {
		return err
	}
	s.file = f
	return nil
}

// restarted says that some of what was acknowledged may be gone: the log has
// another epoch, and no version that was seen comes again.
func (s *killFile) restarted() error {
	r := &killRecord{Epoch: rand.Text(), Scopes: make(map[attend.Scope]killScope)}
	if s.fault == "second, same epoch" && s.log.Epoch != "" {
		r.Epoch = s.log.Epoch
	}
	for scope, k := range s.scopes {
		k.Record.Version = mathrand.Uint64N(1<<62) + 1
		r.Scopes[scope] = k
	}
	return s.write(r)
}

func (s *killFile) apply(r *killRecord) {
	if r.Epoch != "" {
		s.log.Epoch = r.Epoch
		for i := range s.rows {
			s.rows[i].Cursor.Epoch = r.Epoch
		}
	}
	for scope, k := range r.Scopes {
		if s.scopes[scope] = k; k.Record.Version == 0 {
			delete(s.scopes, scope)
		}
	}
	for _, e := range r.Rows {
		e.Cursor.Epoch = s.log.Epoch
		s.rows = append(s.rows, e)
		s.log.Newest = e.Cursor.Position
	}
	if len(r.Rows) > 0 {
		close(s.grown)
		s.grown = make(chan struct{})
	}
}

func encodeKillRecord(r *killRecord) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 8))
	if err := gob.NewEncoder(b).Encode(r); err != nil {
		return nil, err
	}
	binary.LittleEndian.PutUint32(b.Bytes(), uint32(b.Len()-8))
	binary.LittleEndian.PutUint32(b.Bytes()[4:], crc32.ChecksumIEEE(b.Bytes()[8:]))
	return b.Bytes(), nil
}

// append puts records into the file.
func (s *killFile) append(b []byte) error {
	if s.fault == "torn" { // and takes a record that is not whole for the end
		if _, err := s.file.Write(b[:len(b)/2]); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
		b = b[len(b)/2:]
	}
	if _, err := s.file.Write(b); err != nil {
		return err
	}
	return s.file.Sync()
}

// write makes a record last, and then shows it.
func (s *killFile) write(r *killRecord) error {
	b, err := encodeKillRecord(r)
	if err != nil {
		return err
	}
	if s.fault == "shows" && len(r.Rows) > 0 { // readers see rows a moment before they last
		s.apply(&killRecord{Rows: r.Rows})
		s.mu.Unlock()
		time.Sleep(2 * time.Millisecond)
		s.mu.Lock()
		r.Rows = nil
	}
	if err := s.append(append(s.late, b...)); err != nil {
		return err
	}
	s.late = nil
	s.apply(r)
	return nil
}

// commit is where the faults are.
func (s *killFile) commit(r *killRecord) error {
	one, two := &killRecord{Scopes: r.Scopes}, &killRecord{Rows: r.Rows}
	switch s.fault {
	case "acks", "second", "second, same epoch", "seconds": // before it writes
		wait := 5 * time.Millisecond
		switch s.fault {
		case "second", "second, same epoch":
			wait = killSecond
		case "seconds":
			wait = 5 * killSecond
		}
		b, err := encodeKillRecord(r)
		if err != nil {
			return err
		}
		if s.late = append(s.late, b...); len(s.late) == len(b) {
			time.AfterFunc(wait, func() { s.flush() })
		}
		s.apply(r)
		return nil
	case "rows": // land before the state
		return errors.Join(s.write(two), s.write(one))
	case "state": // lands before the rows
		return errors.Join(s.write(one), s.write(two))
	case "half": // of a group lands
		if len(r.Scopes) < 2 {
			break
		}
		now, later := &killRecord{Scopes: make(map[attend.Scope]killScope)}, &killRecord{Scopes: make(map[attend.Scope]killScope)}
		for scope, k := range r.Scopes {
			if len(now.Scopes) < len(r.Scopes)/2 {
				now.Scopes[scope] = k
			} else {
				later.Scopes[scope] = k
			}
		}
		for _, e := range r.Rows {
			if _, ok := now.Scopes[e.Scope]; ok {
				now.Rows = append(now.Rows, e)
			} else {
				later.Rows = append(later.Rows, e)
			}
		}
		if err := s.write(now); err != nil {
			return err
		}
		b, err := encodeKillRecord(later)
		s.late = b
		s.apply(later)
		return err
	}
	return s.write(r)
}

// flush writes what was acknowledged already.
func (s *killFile) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	late := s.late
	s.late = nil
	return s.append(late)
}

func (s *killFile) Close() error {
	err := s.flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return errors.Join(err, s.file.Close())
}

func (s *killFile) Load(_ context.Context, scope attend.Scope) (attend.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return attend.Record{}, attend.ErrClosed
	}
	return s.scopes[scope].clone().Record, nil
}

// clone shares no bytes with k.
func (k killScope) clone() killScope {
	k.Record.Snapshot, k.Record.Tail = bytes.Clone(k.Record.Snapshot), slices.Clone(k.Record.Tail)
	for i, in := range k.Record.Tail {
		k.Record.Tail[i] = bytes.Clone(in)
	}
	return k
}

func (s *killFile) Commit(_ context.Context, writes []attend.Write) ([]attend.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, attend.ErrClosed
	}
	out := make([]attend.Outcome, len(writes))
	r := &killRecord{Scopes: make(map[attend.Scope]killScope)}
	next := s.log.Newest
	for i, w := range writes {
		k := s.scopes[w.Scope]
		if k.Record.Version != w.Expect {
			continue
		}
		if k.Record.Version++; w.Expect == 0 {
			k.Record.Version = mathrand.Uint64N(1<<62) + 1
		}
		out[i].Version = k.Record.Version
		if w.Snapshot != nil {
			k.Record.Snapshot, k.Record.Tail = w.Snapshot, nil
		}
		k.Record.Tail = slices.Concat(k.Record.Tail, w.Inputs)
		if !w.KeepDue {
			k.Due = w.Due
		}
		if w.Forget {
			k = killScope{}
		}
		r.Scopes[w.Scope] = k.clone()
		for _, row := range w.Rows {
			next++
			row.Body = bytes.Clone(row.Body)
			r.Rows = append(r.Rows, attend.Entry{Cursor: attend.LogCursor{Position: next}, Row: row})
		}
	}
	if len(r.Scopes) == 0 {
		return out, nil
	}
	return out, s.commit(r)
}

func (s *killFile) Due(_ context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
	return func(yield func(attend.Scope, error) bool) {
		s.mu.Lock()
		var due []attend.Scope
		for scope, k := range s.scopes {
			if !k.Due.IsZero() && !k.Due.After(now) {
				due = append(due, scope)
			}
		}
		slices.SortFunc(due, func(a, b attend.Scope) int { return s.scopes[a].Due.Compare(s.scopes[b].Due) })
		s.mu.Unlock()
		for _, scope := range due {
			if !yield(scope, nil) {
				return
			}
		}
	}
}

func (s *killFile) Remove(_ context.Context, scope attend.Scope) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commit(&killRecord{Scopes: map[attend.Scope]killScope{scope: {}}})
}

func (s *killFile) Log() attend.DecisionLog { return s }

func (s *killFile) Bounds(context.Context) (attend.Bounds, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log, nil
}

func (s *killFile) Read(_ context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
	return func(yield func(attend.Entry, error) bool) {
		s.mu.Lock()
		err, rows := s.log.Check(q), s.rows
		s.mu.Unlock()
		if err != nil {
			yield(attend.Entry{}, err)
			return
		}
		for _, e := range rows {
			if e.Cursor.Position > q.After.Position && q.Wants(e.Type) && q.Prefix.Covers(e.Scope) {
				if e.Body = bytes.Clone(e.Body); !yield(e, nil) {
					return
				}
			}
		}
	}
}

// Wait wakes for any row, and at once where the cursor is of another epoch.
func (s *killFile) Wait(ctx context.Context, q attend.Query) error {
	s.mu.Lock()
	grown, there := s.grown, q.After.Position < s.log.Newest || s.log.Check(q) != nil
	s.mu.Unlock()
	if there {
		return pause(ctx, time.Millisecond)
	}
	select {
	case <-grown:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *killFile) Find(_ context.Context, id attend.DecisionID, t attend.RowType) (attend.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range slices.Backward(s.rows) {
		if e.ID == id && (e.Type == t || t == "" && e.Type == decision) {
			return e, nil
		}
	}
	return attend.Entry{}, fmt.Errorf("%s: %w", id, attend.ErrNotFound)
}

func (s *killFile) Trim(context.Context, attend.Retain, time.Time) error {
	return errors.ErrUnsupported
}
