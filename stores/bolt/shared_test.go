package bolt_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/bolt"
)

// A shared is a store and an event log in a database that an app has too.
type shared struct {
	db  *bbolt.DB
	s   *bolt.Store
	log *bolt.EventLog
	n   int // events
}

func newShared(t *testing.T) *shared {
	t.Helper()
	db := database(t)
	s, err := bolt.New(t.Context(), db, bolt.Config{})
	if err != nil {
		t.Fatal(err)
	}
	log, err := bolt.NewEventLog(t.Context(), db, bolt.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); log.Close() })
	put(t, s, attend.Write{Scope: "ops", Snapshot: []byte("x")})
	return &shared{db: db, s: s, log: log}
}

// appWrites begins a transaction of the app's, behind one of its own that ended,
// so that nobody knows whether what readers see is on the disk.
func (x *shared) appWrites(t *testing.T) *bbolt.Tx {
	t.Helper()
	err := x.db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucketIfNotExists([]byte("app")); return err })
	if err != nil {
		t.Fatal(err)
	}
	tx, err := x.db.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback() })
	return tx
}

// calls are those that wait for the app. None of them changes what is there when
// it leaves.
func (x *shared) calls() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Commit": func(ctx context.Context) error {
			_, err := x.s.Commit(ctx, []attend.Write{{Scope: "new", Inputs: [][]byte{nil}}})
			return err
		},
		"Remove": func(ctx context.Context) error { return x.s.Remove(ctx, "ops") },
		"Load":   func(ctx context.Context) error { _, err := x.s.Load(ctx, "ops"); return err },
		"Due": func(ctx context.Context) error {
			for _, err := range x.s.Due(ctx, time.UnixMilli(5)) {
				return err
			}
			return nil
		},
		"Read": func(ctx context.Context) error {
			for _, err := range x.s.Log().Read(ctx, attend.Query{}) {
				return err
			}
			return nil
		},
		"Trim": func(ctx context.Context) error {
			return x.s.Log().Trim(ctx, attend.Retain{Count: 1}, time.UnixMilli(5))
		},
		"Wait": func(ctx context.Context) error { return x.s.Log().(attend.Waiter).Wait(ctx, attend.Query{}) },
		"Append": func(ctx context.Context) error {
			x.n++
			return x.log.Append(ctx, "ops", []attend.Event{{ID: fmt.Sprint(x.n), Name: "n"}})
		},
		"WaitEvents": func(ctx context.Context) error { return x.log.WaitEvents(ctx, "ops", "") },
	}
}

// returns is what f returns, where it does within a while.
func returns(t *testing.T, what string, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(10 * time.Second):
		t.Fatalf("%s does not return", what)
		return nil
	}
}

// While an app writes, calls wait until their contexts end, and leave nothing
// that is in anybody's way.
func TestSharedContext(t *testing.T) {
	x := newShared(t)
	app := x.appWrites(t)
	before := runtime.NumGoroutine()
	for range 3 {
		for what, call := range x.calls() {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if err := returns(t, what, func() error { return call(ctx) }); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s while an app writes: %v, want DeadlineExceeded", what, err)
			}
			cancel()
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := returns(t, "New", func() error { _, err := bolt.New(ctx, x.db, bolt.Config{}); return err })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("New while an app writes: %v, want DeadlineExceeded", err)
	}
	// Of each handle one that writes and one that reads.
	if n := runtime.NumGoroutine() - before; n > 2*3 {
		t.Errorf("%d goroutines wait for the app after all calls have left, want 6 at most", n)
	}
	if err := app.Rollback(); err != nil {
		t.Fatal(err)
	}
	if rec, err := x.s.Load(t.Context(), "new"); err != nil || rec.Version != 0 {
		t.Errorf("what nobody waited for any more is there: version %d, %v", rec.Version, err)
	}
	put(t, x.s, attend.Write{Scope: "new", Snapshot: []byte("y")})
	if err := x.log.Append(t.Context(), "ops", []attend.Event{{ID: "last", Name: "n"}}); err != nil {
		t.Error(err)
	}
	for b, err := range x.log.Batches(t.Context(), "ops", "") {
		if err != nil || len(b.Events) != 1 {
			t.Errorf("Batches = %d events, %v, want the last one alone", len(b.Events), err)
		}
	}
	if err := x.db.Update(func(*bbolt.Tx) error { return nil }); err != nil {
		t.Errorf("the app's next transaction: %v", err)
	}
	if n := x.db.Stats().OpenTxN; n > 1 { // the log's keeper may have one
		t.Errorf("%d read transactions are open", n)
	}
}

// Calls that nobody bounds return when the app's transaction ends, or when the
// handle is closed.
func TestSharedClose(t *testing.T) {
	for _, closes := range []bool{false, true} {
		x := newShared(t)
		app := x.appWrites(t)
		var waiting sync.WaitGroup
		for what, call := range x.calls() {
			if what == "Wait" || what == "WaitEvents" {
				continue // they have something else to wait for
			}
			waiting.Go(func() {
				if err := call(context.Background()); closes != errors.Is(err, attend.ErrClosed) || !closes && err != nil {
					t.Errorf("%s that waited for an app: %v, want ErrClosed if it was closed (%v)", what, err, closes)
				}
			})
		}
		time.Sleep(20 * time.Millisecond)
		if closes {
			for what, f := range map[string]func() error{"Store": x.s.Close, "EventLog": x.log.Close} {
				if err := returns(t, "Close of the "+what, f); err != nil {
					t.Errorf("Close of the %s while an app writes: %v", what, err)
				}
			}
		} else if err := app.Rollback(); err != nil {
			t.Fatal(err)
		}
		returns(t, "one of the calls", func() error { waiting.Wait(); return nil })
	}
}

// A file that loses all of itself while it is open is an error, again and again.
func TestEmptiedWhileOpen(t *testing.T) {
	for _, reads := range []bool{false, true} {
		file, _ := made(t)
		s := open(t, file, bolt.Config{})
		if err := os.Truncate(file, 0); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			err := returns(t, "a call", func() error {
				if reads {
					_, err := s.Log().Bounds(t.Context())
					return err
				}
				_, err := s.Commit(t.Context(), []attend.Write{{Scope: "new", Inputs: [][]byte{nil}}})
				return err
			})
			if !errors.Is(err, attend.ErrCorrupt) {
				t.Errorf("on an empty file (reads: %v): %v, want ErrCorrupt", reads, err)
			}
		}
		if err := returns(t, "Close", s.Close); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}
