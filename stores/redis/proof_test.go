package redis_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/attend-go/attend/conformance/servers"
	attend "github.com/attend-go/attend/core"
)

// follow makes a server the replica of another, and waits until it is.
func follow(t testing.TB, c raw, of *servers.Server) {
	t.Helper()
	u, err := url.Parse(of.URL())
	if err != nil {
		t.Fatal(err)
	}
	c.do("CONFIG", "SET", "masterauth", password(t, of.URL()))
	c.do("REPLICAOF", u.Hostname(), u.Port())
	eventually(t, "the replica follows, and its file begins with what it got", func() bool {
		text, err := c.do("INFO").ToString()
		return err == nil && contains(text, "master_link_status:up") && contains(text, "aof_rewrite_in_progress:0") && contains(text, "aof_rewrite_scheduled:0")
	})
}

// rewrite has a server write its append-only file anew, from what it holds.
func rewrite(t testing.TB, c raw) {
	t.Helper()
	c.do("BGREWRITEAOF")
	eventually(t, "the file is rewritten", func() bool {
		text, err := c.do("INFO", "persistence").ToString()
		return err == nil && contains(text, "aof_rewrite_in_progress:0") && contains(text, "aof_rewrite_scheduled:0")
	})
}

// A replica that lagged never passes for the server that it followed, however it
// comes to be the master, though each answer was synced on both.
func TestLaggingReplica(t *testing.T) {
	for _, c := range []struct {
		name    string
		early   bool // it begins to follow before the store is made
		restart bool // the master, before the replica follows
		after   func(b raw, s *servers.Server)
	}{
		{"restarted on its own file", true, false, func(_ raw, s *servers.Server) { again(t, s) }},
		{"restarted on its own file, which began with a snapshot", false, false, func(_ raw, s *servers.Server) { again(t, s) }},
		{"restarted on its own file, when its master was restarted before", false, true, func(_ raw, s *servers.Server) { again(t, s) }},
		{"promoted", true, false, func(b raw, _ *servers.Server) { b.do("REPLICAOF", "NO", "ONE") }},
		{"promoted and restarted", true, false, func(b raw, s *servers.Server) { b.do("REPLICAOF", "NO", "ONE"); again(t, s) }},
		{"promoted, and rewritten, and restarted", false, true, func(b raw, s *servers.Server) { b.do("REPLICAOF", "NO", "ONE"); rewrite(t, b); again(t, s) }},
		{"promoted, and alone for longer than its backlog lasts", true, false, func(b raw, _ *servers.Server) {
			b.do("REPLICAOF", "NO", "ONE")
			eventually(t, "its second replication id is gone", func() bool {
				text, err := b.do("INFO", "replication").ToString()
				return err == nil && contains(text, "master_replid2:0000000000")
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			one, two := start(t, nil), start(t, map[string]string{"repl-backlog-ttl": "1"})
			o := quiet()
			b := connect(t, two.URL())
			if c.early {
				follow(t, b, one)
			}
			s := openOne(t, one.URL(), o)
			l := openEvents(t, one.URL(), o)
			decide(t, s, "d1")
			push(t, l, "e1")
			if c.restart { // nobody has called the log since
				again(t, one)
			}
			if !c.early {
				follow(t, b, one)
			}
			eventually(t, "the replica has it", func() bool { return len(b.keys(o.Prefix+"ei:")) > 0 })
			// It goes on as it was, and hears no more.
			b.do("CONFIG", "SET", "masterauth", "wrong")
			connect(t, one.URL()).do("CLIENT", "KILL", "TYPE", "replica")
			usable(t, s)
			first := newest(t, s)
			_, read, _ := events(t, l, "")
			decide(t, s, "lost")
			push(t, l, "lost")
			at := newest(t, s)

			stop(t, one)
			c.after(b, two)
			second, events2 := open(t, two.URL(), o), openEvents(t, two.URL(), o)
			if got, err := ids(t, second, attend.LogCursor{}); err != nil || len(got) != 1 {
				t.Fatalf("the replica has %v, %v, want one row", got, err)
			}
			decide(t, second, "d2")
			push(t, events2, "e2")
			for _, after := range []attend.LogCursor{first, at} {
				if _, err := ids(t, second, after); !errors.Is(err, attend.ErrTruncated) {
					t.Errorf("a read behind %v, on a replica without the newest row: %v, want ErrTruncated", after, err)
				}
			}
			if _, _, gap := events(t, events2, read); !gap {
				t.Error("a read of events on a replica without the newest one: no gap")
			}
		})
	}
}

// A master that followed another one in between may have lost what that one
// lacks, though nobody called the log there.
func TestMasterAgain(t *testing.T) {
	one, two := start(t, nil), start(t, nil)
	a, b := connect(t, one.URL()), connect(t, two.URL())
	o := quiet()
	s := openOne(t, one.URL(), o)
	decide(t, s, "d1")
	follow(t, b, one)
	b.do("REPLICAOF", "NO", "ONE")
	decide(t, s, "lost")
	at := newest(t, s)
	follow(t, a, two)
	a.do("REPLICAOF", "NO", "ONE")
	usable(t, s)
	if got, err := ids(t, s, attend.LogCursor{}); err != nil || len(got) != 1 {
		t.Fatalf("the master has %v, %v, want one row", got, err)
	}
	if _, err := ids(t, s, at); !errors.Is(err, attend.ErrTruncated) {
		t.Errorf("a read behind a row that the other one lacked: %v, want ErrTruncated", err)
	}
}

// What changes nothing in the data keeps the epoch, without any proof.
func TestLifeGoesOn(t *testing.T) {
	one, two := start(t, nil), start(t, map[string]string{"repl-backlog-ttl": "1", "appendfsync": "everysec"})
	b := connect(t, two.URL())
	o := quiet()
	decide(t, open(t, one.URL(), o), "d1")
	follow(t, b, one)
	eventually(t, "the replica has it", func() bool { return len(b.keys(o.Prefix+"log:")) > 0 })
	b.do("REPLICAOF", "NO", "ONE")
	s := open(t, two.URL(), o)
	at := newest(t, s)
	eventually(t, "its second replication id is gone", func() bool {
		text, err := b.do("INFO", "replication").ToString()
		return err == nil && contains(text, "master_replid2:0000000000")
	})
	b.do("CONFIG", "RESETSTAT")
	rewrite(t, b)
	if got := newest(t, s); got != at {
		t.Errorf("a promoted master, some time later: the log's end is %v, want %v", got, at)
	}
	if got := newest(t, open(t, two.URL(), o)); got != at {
		t.Errorf("another handle: the log's end is %v, want %v", got, at)
	}
}

// A file that was rewritten begins with a snapshot, which proves nothing; the
// next commit does.
func TestRestartRewritten(t *testing.T) {
	server := start(t, nil)
	c := connect(t, server.URL())
	o := quiet()
	s, l := openOne(t, server.URL(), o), openEvents(t, server.URL(), o)
	decide(t, s, "d1")
	push(t, l, "e1")
	rewrite(t, c)
	decide(t, s, "d2")
	push(t, l, "e2")
	at := newest(t, s)
	_, read, _ := events(t, l, "")
	again(t, server)
	usable(t, s)
	if got := newest(t, s); got != at {
		t.Errorf("after a commit behind a rewrite, and a kill: the log's end is %v, want %v", got, at)
	}
	l2 := openEvents(t, server.URL(), o)
	if _, _, gap := events(t, l2, read); gap {
		t.Error("after an event behind a rewrite, and a kill, there is a gap")
	}
	rewrite(t, connect(t, server.URL()))
	again(t, server)
	usable(t, s)
	if got := newest(t, s); got.Epoch == at.Epoch {
		t.Error("after a rewrite and a kill the epoch is the same, without proof")
	}
}

// An older file that was put back is not noticed; but whoever does so can say
// it, as doc.go has it.
func TestBackupPutBack(t *testing.T) {
	dir, err := os.MkdirTemp("", "attend")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // the server may run as another user
		t.Fatal(err)
	}
	server, err := servers.StartRedis(t.Context(), servers.Config{Dir: filepath.Join(dir, "redis")})
	if errors.Is(err, servers.ErrMissing) {
		servers.Redis(t) // which skips, or fails
	}
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	o := quiet()
	s := openOne(t, server.URL(), o)
	decide(t, s, "kept")
	at := newest(t, s)
	stop(t, server)
	files := snapshot(t, filepath.Join(dir, "redis"))
	restart(t, server)
	usable(t, s)
	decide(t, s, "lost")
	stop(t, server)
	files.restore(t)
	restart(t, server)
	connect(t, server.URL()).do("HDEL", o.Prefix+"head", "life")
	usable(t, s)
	if _, err := ids(t, s, at); !errors.Is(err, attend.ErrTruncated) {
		t.Errorf("a read after a backup was put back, and the life deleted: %v, want ErrTruncated", err)
	}
}

// Who pauses syncing while the file is rewritten loses something.
func TestPausingSync(t *testing.T) {
	server := start(t, map[string]string{"no-appendfsync-on-rewrite": "yes"})
	s := openOne(t, server.URL(), quiet())
	decide(t, s, "d1")
	at := newest(t, s)
	again(t, server)
	usable(t, s)
	if got := newest(t, s); got.Epoch == at.Epoch {
		t.Error("the epoch is the same, though rows may have been lost")
	}
}
