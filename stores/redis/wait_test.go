package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/attend-go/attend/conformance/servers"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/redis"
	"github.com/redis/rueidis"
)

func row(scope attend.Scope, id attend.DecisionID) attend.Row {
	return attend.Row{Scope: scope, ID: id, Type: attend.RowDecision, At: time.UnixMilli(1_700_000_000_000), Body: []byte(`{"a":1}`)}
}

// waiting starts a Wait, behind what there is now where q has no cursor, and
// returns once it must be blocked.
func waiting(t testing.TB, s *redis.Store, q attend.Query) <-chan error {
	t.Helper()
	if q.After == (attend.LogCursor{}) {
		b, err := s.Log().Bounds(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		q.After = attend.LogCursor{Epoch: b.Epoch, Position: b.Newest}
	}
	woken := make(chan error, 1)
	go func() { woken <- s.Log().(attend.Waiter).Wait(t.Context(), q) }()
	time.Sleep(20 * time.Millisecond)
	return woken
}

// A wake-up comes over the subscription, at once: long before a look would.
func TestWaitHears(t *testing.T) {
	o := quiet()
	a, b := open(t, servers.Redis(t).URL(), o), open(t, servers.Redis(t).URL(), o)
	first, end := context.WithCancel(t.Context())
	defer end()
	go b.Log().(attend.Waiter).Wait(first, attend.Query{Prefix: "nobody"})
	eventually(t, "the subscription is up", func() bool { return redis.Hearing(b) })
	for i := range 10 {
		woken := waiting(t, b, attend.Query{Prefix: "ops"})
		began := time.Now()
		put(t, a, attend.Write{Scope: attend.Scope(rune('a' + i)), Rows: []attend.Row{row("ops/db", "d")}})
		if err := <-woken; err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d > 200*time.Millisecond {
			t.Errorf("wake-up %d by another handle took %v, want it at once", i, d)
		}
	}
}

// Rows that a waiter did not ask for leave it asleep.
func TestWaitSleeps(t *testing.T) {
	o := quiet()
	a, b := open(t, servers.Redis(t).URL(), o), open(t, servers.Redis(t).URL(), o)
	put(t, a, attend.Write{Scope: "ops", Rows: []attend.Row{row("ops", "d")}})
	var woken <-chan error
	eventually(t, "a waiter sleeps", func() bool { // not so when the subscription begins
		woken = waiting(t, b, attend.Query{Prefix: "ops"})
		select {
		case <-woken:
			return false
		case <-time.After(time.Second):
			return redis.Hearing(b)
		}
	})
	verdict := row("ops", "v")
	verdict.Type = attend.RowVerdict
	for i := range 20 {
		put(t, a, attend.Write{Scope: attend.Scope(rune('a' + i)), Rows: []attend.Row{row("opsx", "d"), verdict}})
		put(t, b, attend.Write{Scope: attend.Scope(rune('A' + i)), Rows: []attend.Row{row("opsx", "d"), verdict}})
	}
	select {
	case err := <-woken:
		t.Errorf("Wait for decisions of ops = %v, after rows of other scopes and types", err)
	case <-time.After(100 * time.Millisecond):
	}
}

// A subscription whose other end is gone without a word costs seconds, no row,
// and is made again.
func TestWaitDeadConnection(t *testing.T) {
	url := servers.Redis(t).URL()
	p := newProxy(t, url)
	o := quiet()
	a, b := open(t, url, o), open(t, p.url, o)
	woken := waiting(t, b, attend.Query{})
	eventually(t, "the subscription is up", func() bool { return redis.Hearing(b) })
	if p.deafen() == 0 {
		t.Fatal("no connection has subscribed")
	}
	for i := range 3 {
		if i > 0 {
			woken = waiting(t, b, attend.Query{})
		}
		select {
		case <-woken: // by the subscription's beginning
			woken = waiting(t, b, attend.Query{})
		default:
		}
		began := time.Now()
		put(t, a, attend.Write{Scope: attend.Scope(rune('a' + i)), Rows: []attend.Row{row("ops", "d")}})
		select {
		case err := <-woken:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("row %d: no wake-up in 20 s", i)
		}
		if d := time.Since(began); d > 4*time.Second {
			t.Errorf("row %d: the wake-up took %v, want it by a look, each 2 s", i, d)
		}
	}
	eventually(t, "the subscription is up again", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range p.conns {
			if c.subscribed.Load() && !c.mute.Load() {
				return redis.Hearing(b)
			}
		}
		return false
	})
}

// A subscription that is alive and hears nothing, as on a node that has lost its
// cluster, is found out: what a look found was not told by the next one.
func TestWaitDeaf(t *testing.T) {
	type look struct {
		epoch         string
		newest, heard attend.Position
	}
	for _, c := range []struct {
		name  string
		looks []look
		want  bool
	}{
		{"nothing grows", []look{{"e", 5, 0}, {"e", 5, 0}, {"e", 5, 0}}, false},
		{"all is heard", []look{{"e", 5, 0}, {"e", 7, 7}, {"e", 9, 9}, {"e", 9, 9}}, false},
		{"what grew before it began is not heard", []look{{"e", 5, 0}, {"e", 5, 0}}, false},
		{"a message comes behind its look", []look{{"e", 5, 0}, {"e", 7, 5}, {"e", 9, 8}, {"e", 9, 9}}, false},
		{"a message never comes", []look{{"e", 5, 0}, {"e", 7, 0}, {"e", 7, 0}}, true},
		{"some are lost at the end", []look{{"e", 5, 0}, {"e", 7, 7}, {"e", 9, 7}, {"e", 9, 7}}, true},
		{"another life begins lower", []look{{"e", 90, 0}, {"e", 95, 95}, {"f", 3, 95}, {"f", 3, 0}}, false},
		{"another life is not heard", []look{{"e", 90, 0}, {"f", 3, 95}, {"f", 5, 0}, {"f", 5, 0}}, true},
	} {
		s := open(t, servers.Redis(t).URL(), quiet())
		deaf := false
		for _, l := range c.looks {
			deaf = deaf || redis.Look(s, l.epoch, l.newest, l.heard)
		}
		if deaf != c.want {
			t.Errorf("%s: the subscription is taken for deaf: %v", c.name, deaf)
		}
	}
}

// All connections at once, dead or cut: every call comes back.
func TestConnectionsLost(t *testing.T) {
	url := servers.Redis(t).URL()
	p := newProxy(t, url)
	o := quiet()
	o.Timeout = time.Second
	s := open(t, p.url, o)
	put(t, s, attend.Write{Scope: "ops", Inputs: [][]byte{[]byte("a")}, Due: time.UnixMilli(1)})
	woken := waiting(t, s, attend.Query{})
	p.mute.Store(true)
	began := time.Now()
	if _, err := s.Load(t.Context(), "ops"); err == nil {
		t.Error("Load from a server that says nothing: no error")
	}
	if _, err := s.Commit(t.Context(), []attend.Write{{Scope: "new"}}); err == nil {
		t.Error("Commit to a server that says nothing: no error")
	}
	for _, err := range s.Due(t.Context(), time.Now()) {
		if err == nil {
			t.Error("Due of a server that says nothing yields")
		}
	}
	for _, err := range s.Log().Read(t.Context(), attend.Query{}) {
		if err == nil {
			t.Error("Read from a server that says nothing yields")
		}
	}
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("four calls to a server that says nothing took %v, with a timeout of 1 s", d)
	}
	p.mute.Store(false)
	p.cut()
	eventually(t, "the store works again", func() bool { _, err := s.Load(t.Context(), "ops"); return err == nil })
	put(t, s, attend.Write{Scope: "ops2", Rows: []attend.Row{row("ops", "d")}})
	select {
	case err := <-woken:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the waiter does not wake after the connections came back")
	}
}

// What a commit wrote is not written again when its answer is lost, and the
// caller is told that it does not know.
func TestAnswerLost(t *testing.T) {
	url := servers.Redis(t).URL()
	p := newProxy(t, url)
	o := quiet()
	s := openOne(t, p.url, o)
	direct := open(t, url, o)
	for i := range 5 {
		rec, err := direct.Load(t.Context(), "ops")
		if err != nil {
			t.Fatal(err)
		}
		p.mute.Store(true)
		done := make(chan error, 1)
		go func() {
			_, err := s.Commit(t.Context(), []attend.Write{{Scope: "ops", Expect: rec.Version, Inputs: [][]byte{[]byte("x")}, Rows: []attend.Row{row("ops", "d")}}})
			done <- err
		}()
		eventually(t, "the commit lands", func() bool {
			now, err := direct.Load(t.Context(), "ops")
			return err == nil && now.Version != rec.Version
		})
		p.cut()
		p.mute.Store(false)
		if err := <-done; err == nil {
			t.Fatal("Commit whose answer was lost: no error")
		}
		time.Sleep(50 * time.Millisecond) // for a second run, if there were one
		now, err := direct.Load(t.Context(), "ops")
		if err != nil || len(now.Tail) != i+1 {
			t.Fatalf("after %d commits, their answers lost, the tail has %d inputs (%v)", i+1, len(now.Tail), err)
		}
		eventually(t, "the handle works again", func() bool { _, err := s.Load(t.Context(), "ops"); return err == nil })
	}
	n := 0
	for _, err := range direct.Log().Read(t.Context(), attend.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 5 {
		t.Errorf("the log has %d rows of 5 commits", n)
	}
}

// A handle that nobody waits on any more gives its connection back, and takes
// one again for the next that waits.
func TestWaitNobody(t *testing.T) {
	url := servers.Redis(t).URL()
	one := connectOption(t, url, func(o *option) { o.BlockingPoolSize = 1 })
	o := quiet()
	s, err := redis.New(t.Context(), one.Client, *o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	redis.Rest(s, 200*time.Millisecond)
	a := open(t, url, o)
	for i := range 3 {
		woken := waiting(t, s, attend.Query{Prefix: "ops"})
		eventually(t, "the subscription is up", func() bool { return redis.Hearing(s) })
		select {
		case <-woken: // by the subscription's beginning
			woken = waiting(t, s, attend.Query{Prefix: "ops"})
		case <-time.After(300 * time.Millisecond):
		}
		if !redis.Hearing(s) {
			t.Error("the subscription has ended while somebody waits")
		}
		put(t, a, attend.Write{Scope: attend.Scope(rune('a' + i)), Rows: []attend.Row{row("ops", "d")}})
		if err := <-woken; err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithTimeout(t.Context(), 10*time.Second)
		err := one.Do(ctx, one.B().Blpop().Key(o.Prefix+"none").Timeout(0.01).Build()).Error()
		end()
		if !rueidis.IsRedisNil(err) {
			t.Fatalf("the app's blocking command, when nobody waits: %v, want it to get the connection", err)
		}
		if redis.Hearing(s) {
			t.Error("the subscription is up when nobody waits")
		}
	}
}
