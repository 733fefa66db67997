package redis_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/redis"
)

// A client whose connections have a lifetime sends again what was under way when
// one ended. Nothing is done twice, and the answer is that of the first time.
func TestSentTwice(t *testing.T) {
	server := start(t, map[string]string{"lua-time-limit": "60000"})
	other := connect(t, server.URL())
	// Since Redis 7.2 a script's clock stands still, so one that keeps the server
	// busy counts. It is measured how far that is in a second.
	const count = "for i = 1, tonumber(ARGV[1]) do end return 1"
	second := 0
	for n := 20_000_000; second == 0; n *= 2 {
		begun := time.Now()
		other.do("EVAL", count, "0", strconv.Itoa(n))
		if took := time.Since(begun).Seconds(); took > 1 {
			second = int(float64(n) / took)
		}
	}
	// A commit that waits for the server, longer than its connection lives.
	slow := func(f func(*redis.Store)) {
		t.Helper()
		c := connectOption(t, server.URL(), func(o *option) {
			o.PipelineMultiplex, o.ConnLifetime, o.AlwaysPipelining = -1, time.Second, true
		})
		s, err := redis.New(t.Context(), c.Client, redis.Config{Prefix: "test:{twice}:", Logger: quiet().Logger})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		done := make(chan struct{})
		go func() {
			defer close(done)
			other.do("EVAL", count, "0", strconv.Itoa(5*second/2))
		}()
		time.Sleep(100 * time.Millisecond)
		f(s)
		<-done
	}
	direct := open(t, server.URL(), &redis.Config{Prefix: "test:{twice}:", Logger: quiet().Logger})
	put(t, direct, attend.Write{Scope: "first", Rows: []attend.Row{row("first", "d0")}}) // so that the script is known
	commit := func(w attend.Write) {
		t.Helper()
		slow(func(s *redis.Store) {
			t.Helper()
			out, err := s.Commit(t.Context(), []attend.Write{w})
			if err != nil || out[0].Conflict() {
				t.Errorf("Commit that its client sent twice: %v, %v, want no conflict", out, err)
				return
			}
			rec, err := direct.Load(t.Context(), w.Scope)
			if want := out[0].Version; err != nil || rec.Version != want && !w.Forget || w.Forget && rec.Version != 0 {
				t.Errorf("after Commit = version %d the scope has version %d (%v)", want, rec.Version, err)
			}
		})
	}
	commit(attend.Write{Scope: "ops", Inputs: [][]byte{[]byte("a")}, Rows: []attend.Row{row("ops", "d1")}})
	rec, err := direct.Load(t.Context(), "ops")
	if err != nil || len(rec.Tail) != 1 {
		t.Fatalf("the scope has %d inputs (%v), want 1", len(rec.Tail), err)
	}
	commit(attend.Write{Scope: "ops", Expect: rec.Version, Forget: true, Rows: []attend.Row{row("ops", "d2")}})
	if got, err := ids(t, direct, attend.LogCursor{}); err != nil || len(got) != 3 {
		t.Errorf("the log has %v, %v, want three rows", got, err)
	}
}

// A note of what was done goes away by itself, and a handle of Open's makes none.
func TestNotes(t *testing.T) {
	server := start(t, nil)
	c := connect(t, server.URL())
	o := quiet()
	o.Timeout = time.Second
	put(t, open(t, server.URL(), o), attend.Write{Scope: "a"})
	if got := c.keys(o.Prefix + "did:"); len(got) != 0 {
		t.Errorf("a handle of Open's notes %q", got)
	}
	s := openOne(t, server.URL(), o)
	put(t, s, attend.Write{Scope: "b"})
	if err := s.Remove(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if got := c.keys(o.Prefix + "did:"); len(got) != 2 {
		t.Errorf("a commit and a removal noted %q, want two keys", got)
	}
	eventually(t, "the notes are gone", func() bool { return len(c.keys(o.Prefix+"did:")) == 0 })
}

// A client that has no connection left for a handle makes it poll; nothing hangs.
func TestPoolUsedUp(t *testing.T) {
	server := start(t, nil)
	o := quiet()
	one := connectOption(t, server.URL(), func(o *option) { o.BlockingPoolSize = 1 })
	s, err := redis.New(t.Context(), one.Client, *o)
	if err != nil {
		t.Fatal(err)
	}
	woken := waiting(t, s, attend.Query{})
	eventually(t, "the subscription is up", func() bool { return redis.Hearing(s) })

	ends := func(what string, f func(ctx context.Context) error) {
		t.Helper()
		done := make(chan error, 1)
		ctx, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		go func() { done <- f(ctx) }()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s with no connection left: %v", what, err)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%s with no connection left hangs", what)
		}
	}
	var l *redis.EventLog
	ends("NewEventLog", func(ctx context.Context) (err error) { l, err = redis.NewEventLog(ctx, one.Client, *o); return err })
	defer l.Close()
	one.do("HSET", o.Prefix+"head", "life", "another")
	ends("Bounds in a new life", func(ctx context.Context) error { _, err := s.Log().Bounds(ctx); return err })
	<-woken

	// Another handle polls, and can be closed.
	s2, err := redis.New(t.Context(), one.Client, *o)
	if err != nil {
		t.Fatal(err)
	}
	woken = waiting(t, s2, attend.Query{})
	put(t, s, attend.Write{Scope: "ops", Rows: []attend.Row{row("ops", "d")}})
	select {
	case err := <-woken:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("a waiter without a subscription doesn't wake")
	}
	woken = waiting(t, s2, attend.Query{})
	ends("Close", func(context.Context) error { return s2.Close() })
	if err := <-woken; !errors.Is(err, attend.ErrClosed) {
		t.Errorf("Wait of a closed handle: %v, want ErrClosed", err)
	}
	ends("Close of who has the connection", func(context.Context) error { return s.Close() })
}

// A writer that may not publish is noticed by the next message of one that may.
func TestMessageLost(t *testing.T) {
	server := start(t, nil)
	connect(t, server.URL()).do(append(append([]string{"ACL", "SETUSER", "mute"}, rights(t, "test:{")...), "-publish")...)
	o := quiet()
	mute, loud, s := open(t, user(t, server.URL(), "mute"), o), open(t, server.URL(), o), open(t, server.URL(), o)
	for i := range 5 {
		end := newest(t, s)
		x := attend.Query{Prefix: "x", After: end}
		woken := waiting(t, s, x)
		for wait := true; wait; { // not woken by the subscription's beginning
			eventually(t, "the subscription is up", func() bool { return redis.Hearing(s) })
			select {
			case <-woken:
				woken = waiting(t, s, x)
			case <-time.After(100 * time.Millisecond):
				wait = false
			}
		}
		// Both between two looks, as a rule.
		scope := attend.Scope(rune('a' + i))
		put(t, mute, attend.Write{Scope: "m" + scope, Rows: []attend.Row{row("x", "d")}})
		put(t, loud, attend.Write{Scope: "l" + scope, Rows: []attend.Row{row("y", "d")}})
		select {
		case err := <-woken:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%d: the waiter doesn't wake, though the row is there", i)
		}
	}
}
