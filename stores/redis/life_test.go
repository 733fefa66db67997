package redis_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/attend-go/attend/conformance/servers"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/redis"
)

func bounds(t testing.TB, s attend.ScopeStore) attend.Bounds {
	t.Helper()
	b, err := s.Log().Bounds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ids reads the ids of decisions behind a cursor.
func ids(t testing.TB, s attend.ScopeStore, after attend.LogCursor) (out []string, err error) {
	t.Helper()
	for e, err := range s.Log().Read(t.Context(), attend.Query{After: after}) {
		if err != nil {
			return out, err
		}
		out = append(out, string(e.ID))
	}
	return out, nil
}

func newest(t testing.TB, s attend.ScopeStore) attend.LogCursor {
	b := bounds(t, s)
	return attend.LogCursor{Epoch: b.Epoch, Position: b.Newest}
}

func decide(t testing.TB, s attend.ScopeStore, id string) {
	t.Helper()
	rec, err := s.Load(t.Context(), "ops")
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, attend.Write{Scope: "ops", Expect: rec.Version, Inputs: [][]byte{[]byte(id)}, Rows: []attend.Row{row("ops", attend.DecisionID(id))}})
}

func again(t testing.TB, s *servers.Server) {
	t.Helper()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// usable waits until a handle has found its server again.
func usable(t testing.TB, s *redis.Store) {
	t.Helper()
	eventually(t, "the handle finds its server again", func() bool { _, err := s.Log().Bounds(t.Context()); return err == nil })
}

// Where every commit is synced a killed server loses nothing, and readers go on.
func TestRestartAlways(t *testing.T) {
	server := start(t, nil)
	s := openOne(t, server.URL(), quiet())
	decide(t, s, "d1")
	at := newest(t, s)
	for i := range 3 {
		again(t, server)
		usable(t, s)
		if got := newest(t, s); got != at {
			t.Fatalf("after kill %d the log's end is %v, want %v", i+1, got, at)
		}
		id := fmt.Sprint("after-", i)
		decide(t, s, id)
		if got, err := ids(t, s, at); err != nil || len(got) != 1 || got[0] != id {
			t.Fatalf("after kill %d a reader finds %v, %v, want %s", i+1, got, err, id)
		}
		at = newest(t, s)
	}
	rec, err := s.Load(t.Context(), "ops")
	if err != nil || len(rec.Tail) != 4 {
		t.Fatalf("after three kills the tail has %d inputs (%v), want 4", len(rec.Tail), err)
	}
}

// Where they are not, a restart is told to every reader, by the first call of
// anybody: a commit, or one that reads.
func TestRestartEverysec(t *testing.T) {
	server := start(t, map[string]string{"appendfsync": "everysec"})
	o := quiet()
	a, b := openOne(t, server.URL(), o), openOne(t, server.URL(), o)
	for i, first := range []func() error{
		func() error { return nil },
		func() error { _, err := a.Load(t.Context(), "ops"); decide(t, a, "first"); return err },
		func() error { _, err := a.Log().Find(t.Context(), "first", ""); return err },
		func() error { return a.Log().Trim(t.Context(), attend.Retain{Count: 100}, noon) },
		func() error { return open(t, server.URL(), o).Close() },
	} {
		decide(t, a, "before")
		at := newest(t, b)
		again(t, server)
		// Connections find out with their first call; these are none of the log's.
		eventually(t, "a is back", func() bool { _, err := a.Load(t.Context(), "ops"); return err == nil })
		eventually(t, "b is back", func() bool { _, err := b.Load(t.Context(), "ops"); return err == nil })
		if err := first(); err != nil && !errors.Is(err, attend.ErrNotFound) {
			t.Fatalf("%d: %v", i, err)
		}
		_, err := ids(t, b, at)
		lost, ok := errors.AsType[*attend.TruncatedError](err)
		if !ok {
			t.Fatalf("%d: a read behind a cursor from before the restart: %v, want a *TruncatedError", i, err)
		}
		if lost.Oldest.Epoch == at.Epoch {
			t.Errorf("%d: the epoch is the same", i)
		}
		if x, y := bounds(t, a), bounds(t, b); x != y {
			t.Errorf("%d: two handles have bounds %v and %v", i, x, y)
		}
		if _, err := ids(t, b, lost.Oldest); err != nil {
			t.Errorf("%d: Oldest is no place to read on: %v", i, err)
		}
	}
}

// A server that comes back with older data: a crash of its machine, or a
// backup. What it lost is never taken for what came after.
func TestOlderData(t *testing.T) {
	for _, sync := range []string{"everysec", "always"} {
		t.Run(sync, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "attend")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			if err := os.Chmod(dir, 0o755); err != nil { // the server may run as another user
				t.Fatal(err)
			}
			server, err := servers.StartRedis(t.Context(), servers.Config{Dir: filepath.Join(dir, "redis"), Settings: map[string]string{"appendfsync": sync}})
			if errors.Is(err, servers.ErrMissing) {
				servers.Redis(t) // which skips, or fails
			}
			if err != nil {
				t.Fatal(err)
			}
			defer server.Stop()
			o := quiet()
			s := openOne(t, server.URL(), o)
			l, err := redis.NewEventLog(t.Context(), oneConnection(t, server.URL()), *o)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			decide(t, s, "kept")
			push(t, l, "kept")
			stop(t, server)
			files := snapshot(t, filepath.Join(dir, "redis"))
			restart(t, server)
			usable(t, s)
			eventually(t, "the event log's handle finds its server again", func() bool {
				for _, err := range l.Batches(t.Context(), "ops", "") {
					return err == nil
				}
				return false
			})

			var read attend.Cursor
			for i := range 5 {
				decide(t, s, fmt.Sprint("lost-", i))
				push(t, l, fmt.Sprint("lost-", i))
			}
			seen, _ := s.Load(t.Context(), "ops")
			at := newest(t, s)
			_, read, _ = events(t, l, "")

			stop(t, server)
			files.restore(t)
			restart(t, server)
			usable(t, s)
			eventually(t, "the event log's handle finds its server again", func() bool {
				for _, err := range l.Batches(t.Context(), "ops", "") {
					return err == nil
				}
				return false
			})
			if got, err := ids(t, s, attend.LogCursor{}); err != nil || len(got) != 1 {
				t.Fatalf("the older data has rows %v, %v, want one", got, err)
			}
			if _, err := ids(t, s, at); !errors.Is(err, attend.ErrTruncated) {
				t.Errorf("a read behind a lost row: %v, want ErrTruncated", err)
			}
			if _, _, gap := events(t, l, read); !gap {
				t.Error("a read behind a lost event has no Gap")
			}

			// As much again, so that each number that was lost would be used again.
			for i := range 5 {
				decide(t, s, fmt.Sprint("new-", i))
				push(t, l, fmt.Sprint("new-", i))
			}
			if e, err := s.Log().Find(t.Context(), "new-0", ""); err != nil || e.Cursor.Position <= at.Position {
				t.Errorf("a new row is at %d (%v), where a lost one was read at %d", e.Cursor.Position, err, at.Position)
			}
			got, err := ids(t, s, at)
			if !errors.Is(err, attend.ErrTruncated) && len(got) != 5 {
				t.Errorf("a reader that had read lost rows finds %v, %v, want all new ones or ErrTruncated", got, err)
			}
			if more, _, gap := events(t, l, read); !gap && len(more) != 5 {
				t.Errorf("a reader that had read lost events finds %v and no Gap", more)
			}
			out, err := s.Commit(t.Context(), []attend.Write{{Scope: "ops", Expect: seen.Version, Inputs: [][]byte{[]byte("x")}}})
			if err != nil || !out[0].Conflict() {
				t.Errorf("a write from a lost version: %v, %v, want a conflict", out, err)
			}
		})
	}
}

// In a failover the replica may lack what was acknowledged, whatever the
// settings; and the old master may come back.
func TestFailover(t *testing.T) {
	one, two := start(t, nil), start(t, nil)
	a, b := connect(t, one.URL()), connect(t, two.URL())
	o := quiet()
	s := openOne(t, one.URL(), o)
	follow(t, b, one)
	decide(t, s, "d1")
	at := newest(t, s)
	eventually(t, "the replica has it", func() bool { return len(b.keys(o.Prefix+"log:")) > 0 })

	if _, err := redis.Open(t.Context(), two.URL(), *o); err == nil || !contains(err.Error(), "role") {
		t.Errorf("Open on a replica: %v, want an error that names its role", err)
	}
	b.do("REPLICAOF", "NO", "ONE")
	second := open(t, two.URL(), o)
	if _, err := ids(t, second, at); !errors.Is(err, attend.ErrTruncated) {
		t.Errorf("a read on a replica that became the master: %v, want ErrTruncated", err)
	}

	// The same process takes over again. Nothing was committed meanwhile.
	at = newest(t, second)
	follow(t, a, two)
	a.do("REPLICAOF", "NO", "ONE")
	usable(t, s)
	if _, err := ids(t, s, at); !errors.Is(err, attend.ErrTruncated) {
		t.Errorf("a read on a master that was a replica in between: %v, want ErrTruncated", err)
	}
	decide(t, s, "d2")
	if got, err := ids(t, s, attend.LogCursor{}); err != nil || len(got) != 2 {
		t.Errorf("after two failovers the log has %v, %v, want both rows", got, err)
	}
}

// A server that was emptied has a new store, for handles that live on too.
func TestEmptied(t *testing.T) {
	server := start(t, nil)
	o := quiet()
	s, l := open(t, server.URL(), o), openEvents(t, server.URL(), o)
	decide(t, s, "d1")
	push(t, l, "e1")
	at, read := newest(t, s), attend.Cursor("")
	_, read, _ = events(t, l, "")
	connect(t, server.URL()).do("FLUSHALL")
	decide(t, s, "d2")
	push(t, l, "e1", "e2")
	if _, err := ids(t, s, at); !errors.Is(err, attend.ErrTruncated) {
		t.Errorf("a read behind a cursor of the store that was there: %v, want ErrTruncated", err)
	}
	if got, _, gap := events(t, l, read); !gap || len(got) != 2 {
		t.Errorf("behind a cursor of the event log that was there: %v, gap %v, want both events and a gap", got, gap)
	}
}

// A head that is lost alone is made again, behind the rows that are there.
func TestHeadLost(t *testing.T) {
	c := connect(t, servers.Redis(t).URL())
	o := quiet()
	s := open(t, servers.Redis(t).URL(), o)
	decide(t, s, "d1")
	c.do("DEL", o.Prefix+"head")
	decide(t, s, "d2")
	if got, err := ids(t, s, attend.LogCursor{}); err != nil || len(got) != 2 {
		t.Errorf("after its head was deleted the log has %v, %v, want both rows", got, err)
	}
}

// A script that the server has forgotten is sent again.
func TestScriptsFlushed(t *testing.T) {
	server := start(t, nil)
	o := quiet()
	s, l := open(t, server.URL(), o), openEvents(t, server.URL(), o)
	c := connect(t, server.URL())
	var group []attend.Write
	for i := range 700 { // three parts
		group = append(group, attend.Write{Scope: attend.Scope(fmt.Sprint("g-", i)), Inputs: [][]byte{[]byte("x")}})
	}
	for i, f := range []func(){
		func() { decide(t, s, "d") },
		func() { put(t, s, group...) },
		func() { ids(t, s, newest(t, s)) },
		func() { push(t, l, "e") },
		func() { s.Remove(t.Context(), "ops") },
		func() {
			for _, err := range s.Due(t.Context(), noon) {
				t.Error(err)
			}
		},
		func() {
			if err := s.Log().Trim(t.Context(), attend.Retain{Count: 1, Age: 1}, noon); err != nil {
				t.Error(err)
			}
		},
	} {
		c.do("SCRIPT", "FLUSH")
		if f(); t.Failed() {
			t.Fatalf("call %d after SCRIPT FLUSH failed", i)
		}
	}
	if got, err := s.Load(t.Context(), "g-699"); err != nil || len(got.Tail) != 1 {
		t.Errorf("Load after SCRIPT FLUSH = %d inputs, %v", len(got.Tail), err)
	}
}

func stop(t testing.TB, s *servers.Server) {
	t.Helper()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
}

func restart(t testing.TB, s *servers.Server) {
	t.Helper()
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A copyOf is what the files of a folder held.
type copyOf map[string][]byte

func snapshot(t testing.TB, dir string) copyOf {
	t.Helper()
	c := make(copyOf)
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		c[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// restore writes the files over those that are there.
func (c copyOf) restore(t testing.TB) {
	t.Helper()
	for path, b := range c {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
