package redis_test

import (
	"testing"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/redis"
	"github.com/redis/rueidis"
)

// Over maxmemory nothing lands in part; and everything works that frees memory,
// or needs none.
func TestMemoryFull(t *testing.T) {
	server := start(t, nil)
	c := connect(t, server.URL())
	o := quiet()
	s, l := open(t, server.URL(), o), openEvents(t, server.URL(), o)
	put(t, s,
		attend.Write{Scope: "a", Inputs: [][]byte{[]byte("1"), []byte("2")}, Due: noon},
		attend.Write{Scope: "b", Inputs: [][]byte{[]byte("1")}, Due: noon, Rows: []attend.Row{row("b", "d1"), row("b", "d2")}},
		attend.Write{Scope: "c", Inputs: [][]byte{[]byte("1")}, Due: noon},
	)
	push(t, l, "e1")
	version := func(scope attend.Scope) uint64 {
		rec, err := s.Load(t.Context(), scope)
		if err != nil {
			t.Fatalf("Load over maxmemory: %v", err)
		}
		return rec.Version
	}
	a, b := version("a"), version("b")
	at := newest(t, s)
	c.do("CONFIG", "SET", "maxmemory", "1")

	for name, writes := range map[string][]attend.Write{
		"an input":                          {{Scope: "a", Expect: a, Inputs: [][]byte{[]byte("x")}, KeepDue: true}},
		"a snapshot":                        {{Scope: "a", Expect: a, Snapshot: []byte("x"), Due: noon.Add(1e6)}},
		"a due time":                        {{Scope: "a", Expect: a, Due: noon.Add(1e6)}},
		"no bytes":                          {{Scope: "a", Expect: a}},
		"rows":                              {{Scope: "a", Expect: a, KeepDue: true, Rows: []attend.Row{row("a", "x")}}},
		"a new scope":                       {{Scope: "new", Inputs: [][]byte{[]byte("x")}, Rows: []attend.Row{row("new", "x")}}},
		"a scope that is forgotten, others": {{Scope: "b", Expect: b, Forget: true}, {Scope: "a", Expect: a, Snapshot: []byte("x")}},
	} {
		_, err := s.Commit(t.Context(), writes)
		if e, ok := rueidis.IsRedisErr(unwrapped(err)); !ok || !contains(e.Error(), "OOM") {
			t.Errorf("Commit of %s over maxmemory: %v, want the server's OOM", name, err)
		}
		if version("a") != a || version("b") != b || version("new") != 0 || newest(t, s) != at {
			t.Errorf("Commit of %s over maxmemory has changed something", name)
		}
	}
	if err := l.Append(t.Context(), "ops", []attend.Event{{ID: "e2", Name: "n"}}); err == nil {
		t.Error("Append over maxmemory: no error")
	}
	if got, _, _ := events(t, l, ""); len(got) != 1 {
		t.Errorf("after an append over maxmemory the log has %v", got)
	}

	// A handle opens, and one of another life takes the log over.
	again := open(t, server.URL(), o)
	c.do("CONFIG", "SET", "maxmemory", "0")
	c.do("HSET", o.Prefix+"head", "life", "0000001") // which is what a restart looks like,
	c.do("DEL", o.Prefix+"mark")
	c.do("SETRANGE", o.Prefix+"mark", "0", "1000000001") // on the server's own file
	c.do("CONFIG", "SET", "maxmemory", "1")
	if got := newest(t, again); got.Epoch != at.Epoch || got.Position != at.Position {
		t.Errorf("the log goes to %v over maxmemory, want %v", got, at)
	}
	if err := s.Remove(t.Context(), "c"); err != nil || version("c") != 0 {
		t.Errorf("Remove over maxmemory: %v", err)
	}
	out, err := s.Commit(t.Context(), []attend.Write{{Scope: "b", Expect: b, Forget: true, Rows: []attend.Row{row("b", "end")}}})
	if err != nil || out[0].Conflict() || version("b") != 0 {
		t.Errorf("Commit that forgets over maxmemory: %v, %v", out, err)
	}
	if err := s.Log().Trim(t.Context(), attend.Retain{Count: 1}, noon); err != nil {
		t.Errorf("Trim over maxmemory: %v", err)
	}
	if got, err := ids(t, s, attend.LogCursor{}); err != nil || len(got) != 1 || got[0] != "end" {
		t.Errorf("after Trim to one row over maxmemory the log has %v, %v", got, err)
	}

	c.do("CONFIG", "SET", "maxmemory", "0")
	put(t, s, attend.Write{Scope: "a", Expect: a, Snapshot: []byte("x"), Rows: []attend.Row{row("a", "x")}})
	push(t, l, "e2")
}

// unwrapped is the error that the client made.
func unwrapped(err error) error {
	for err != nil {
		if _, ok := rueidis.IsRedisErr(err); ok {
			return err
		}
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		err = u.Unwrap()
	}
	return nil
}

// A server that came up over its limit, with data of another life and a lossy
// setting, still tells its readers.
func TestMemoryFullNewLife(t *testing.T) {
	server := start(t, map[string]string{"appendfsync": "everysec", "maxmemory": "1"})
	c := connect(t, server.URL())
	c.do("CONFIG", "SET", "maxmemory", "0")
	o := quiet()
	s := openOne(t, server.URL(), o)
	decide(t, s, "d1")
	at := newest(t, s)
	again(t, server)
	usable(t, s)
	if got := newest(t, s); got.Epoch == at.Epoch {
		t.Error("a server that was restarted over its maxmemory has kept the epoch")
	}
	if _, err := redis.Open(t.Context(), server.URL(), *quiet()); err != nil {
		t.Errorf("Open of a new store over maxmemory: %v", err)
	}
}
