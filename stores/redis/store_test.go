package redis_test

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/attend-go/attend/conformance/servers"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/redis"
)

func load(t testing.TB, s attend.ScopeStore, scope attend.Scope) attend.Record {
	t.Helper()
	rec, err := s.Load(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// A group beyond what one script takes is cut: by writes, rows and bytes.
func TestCommitParts(t *testing.T) {
	server := start(t, map[string]string{"appendfsync": "no"})
	c := connect(t, server.URL())
	s := open(t, server.URL(), quiet())
	put(t, s, attend.Write{Scope: "first"}) // the server learns the script
	big := make([]byte, 1<<20)
	for _, x := range []struct {
		name  string
		write func(i int) attend.Write
		n     int
		parts int
	}{
		{"writes", func(i int) attend.Write { return attend.Write{Inputs: [][]byte{[]byte("x")}} }, 700, 3},
		{"rows", func(i int) attend.Write {
			var w attend.Write
			for j := range 300 {
				w.Rows = append(w.Rows, row("rows", attend.DecisionID(fmt.Sprintf("%d-%d", i, j))))
			}
			return w
		}, 9, 3},
		{"bytes", func(i int) attend.Write { return attend.Write{Inputs: [][]byte{big}, Due: noon} }, 11, 4},
		{"one that is larger than a part", func(i int) attend.Write { return attend.Write{Inputs: [][]byte{big, big, big, big, big, big}} }, 2, 2},
	} {
		var writes []attend.Write
		for i := range x.n {
			w := x.write(i)
			w.Scope = attend.Scope(fmt.Sprintf("%s-%d", x.name, i))
			if i%5 == 3 { // in the middle of things, a conflict
				w.Expect = 1
			}
			writes = append(writes, w)
		}
		before := calls(t, c, "evalsha")
		out, err := s.Commit(t.Context(), writes)
		if err != nil || len(out) != x.n {
			t.Fatalf("Commit of %d %s: %d outcomes, %v", x.n, x.name, len(out), err)
		}
		if n := calls(t, c, "evalsha") - before; n != x.parts {
			t.Errorf("Commit of %d %s takes %d scripts, want %d", x.n, x.name, n, x.parts)
		}
		for i, o := range out {
			rec := load(t, s, writes[i].Scope)
			if o.Conflict() != (i%5 == 3) || o.Version != rec.Version || !o.Conflict() && len(rec.Tail) != len(writes[i].Inputs) {
				t.Fatalf("%s: write %d of %d has outcome %v, and the scope version %d with %d inputs", x.name, i, x.n, o, rec.Version, len(rec.Tail))
			}
		}
	}
	var want []string
	for i := range 9 {
		for j := range 300 {
			if i%5 != 3 {
				want = append(want, fmt.Sprintf("%d-%d", i, j))
			}
		}
	}
	if got, err := ids(t, s, attend.LogCursor{}); err != nil || !slices.Equal(got, want) {
		t.Errorf("the log has %d rows (%v), want %d in the order of the writes", len(got), err, len(want))
	}
}

// A tail may be longer than what one command takes.
func TestCommitLongTail(t *testing.T) {
	s := open(t, servers.Redis(t).URL(), quiet())
	var inputs [][]byte
	for i := range 9000 {
		inputs = append(inputs, fmt.Append(nil, i))
	}
	put(t, s, attend.Write{Scope: "ops", Inputs: inputs})
	put(t, s, attend.Write{Scope: "ops", Expect: load(t, s, "ops").Version, Inputs: inputs[:3]})
	rec := load(t, s, "ops")
	if !slices.EqualFunc(rec.Tail, slices.Concat(inputs, inputs[:3]), slices.Equal) {
		t.Fatalf("a tail of 9,003 inputs comes back as %d, or in another order", len(rec.Tail))
	}
	put(t, s, attend.Write{Scope: "ops", Expect: rec.Version, Snapshot: []byte("s")})
	if rec := load(t, s, "ops"); string(rec.Snapshot) != "s" || len(rec.Tail) != 0 {
		t.Errorf("after a snapshot the tail has %d inputs", len(rec.Tail))
	}
}

// A store keeps what a caller should not have given it, rather than mix it up.
func TestOddNames(t *testing.T) {
	s := open(t, servers.Redis(t).URL(), quiet())
	names := []attend.Scope{"", "\n", "\x00", "a\x00b", "a\nb", "'", "\xff\xfe", "{a}", "}", attend.Scope(strings.Repeat("x/", 5000)), "s:", "0", "1", "-1"}
	for i, scope := range names {
		put(t, s, attend.Write{Scope: scope, Inputs: [][]byte{fmt.Append(nil, i)}, Due: noon, Rows: []attend.Row{
			{Scope: scope, ID: attend.DecisionID("a/" + string(scope)), Type: attend.RowDecision, At: noon, Body: []byte("\x00\r\n")},
		}})
	}
	for i, scope := range names {
		if rec := load(t, s, scope); len(rec.Tail) != 1 || string(rec.Tail[0]) != fmt.Sprint(i) {
			t.Errorf("scope %.20q holds %q, want %d", scope, rec.Tail, i)
		}
		e, err := s.Log().Find(t.Context(), attend.DecisionID("a/"+string(scope)), "")
		if err != nil || e.Scope != scope || string(e.Body) != "\x00\r\n" {
			t.Errorf("Find of a row of scope %.20q: %q, %v", scope, e.Scope, err)
		}
		found := 0
		for e, err := range s.Log().Read(t.Context(), attend.Query{Prefix: attend.Prefix(scope)}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Scope == scope {
				found++
			}
		}
		if found != 1 {
			t.Errorf("a read of prefix %.20q finds its scope %d times", scope, found)
		}
	}
	due, err := dueAt(t, s)
	if want := slices.Sorted(slices.Values(names)); err != nil || !slices.Equal(due, want) {
		t.Errorf("Due = %.200q, %v, want all by name", due, err)
	}
}

func dueAt(t testing.TB, s attend.ScopeStore) (out []attend.Scope, err error) {
	for scope, err := range s.Due(t.Context(), noon.Add(time.Hour)) {
		if err != nil {
			return out, err
		}
		out = append(out, scope)
	}
	return out, nil
}

// Scopes that are due at one moment are paged by their bytes, and what is
// worked off meanwhile leaves none out.
func TestDueTies(t *testing.T) {
	s := open(t, servers.Redis(t).URL(), quiet())
	var writes []attend.Write
	want := make(map[attend.Scope]bool)
	for i := range 2300 {
		name := make([]byte, 1+rand.IntN(4))
		for j := range name {
			name[j] = byte(rand.IntN(256))
		}
		scope := attend.Scope(fmt.Sprintf("%s-%d", name, i))
		writes = append(writes, attend.Write{Scope: scope, Due: noon.Add(time.Duration(i/2000) * time.Millisecond)})
		want[scope] = true
	}
	put(t, s, writes...)
	var last attend.Scope
	n := 0
	for scope, err := range s.Due(t.Context(), noon.Add(time.Hour)) {
		if err != nil {
			t.Fatal(err)
		}
		if !want[scope] {
			t.Fatalf("Due yields %q twice, or it is none of ours", scope)
		}
		if n < 2000 && scope <= last {
			t.Fatalf("Due yields %q behind %q, both due at one moment", scope, last)
		}
		delete(want, scope)
		last = scope
		n++
		switch n % 3 { // the index changes around the place where a page ends
		case 0:
			if err := s.Remove(t.Context(), scope); err != nil {
				t.Fatal(err)
			}
		case 1:
			put(t, s, attend.Write{Scope: scope, Expect: load(t, s, scope).Version})
		}
	}
	if len(want) > 0 {
		t.Errorf("Due leaves out %d of 2,300", len(want))
	}
}

// What is no store's is a clear error that names the kind of key, and quotes
// nothing.
func TestCorrupt(t *testing.T) {
	url := servers.Redis(t).URL()
	c := connect(t, url)
	o := quiet()
	p := o.Prefix
	s, l := open(t, url, o), openEvents(t, url, o)
	decide(t, s, "d1")
	push(t, l, "e1")
	loads := func() error { _, err := s.Load(t.Context(), "x"); return err }
	commits := func(w attend.Write) func() error {
		return func() error { _, err := s.Commit(t.Context(), []attend.Write{w}); return err }
	}
	reads := func(q attend.Query) func() error {
		return func() error {
			for _, err := range s.Log().Read(t.Context(), q) {
				return err
			}
			return nil
		}
	}
	appends := func() error { return l.Append(t.Context(), "ops", []attend.Event{{ID: "e2", Name: "n"}}) }
	batches := func() error {
		for _, err := range l.Batches(t.Context(), "ops", "") {
			return err
		}
		return nil
	}
	rows := attend.Write{Scope: "new", Inputs: [][]byte{[]byte("x")}, Due: noon, Rows: []attend.Row{row("ops", "d2")}}
	for _, x := range []struct {
		name string
		key  string
		with [][]string
		call func() error
	}{
		{"a hash without a version", "s:x", [][]string{{"HSET", p + "s:x", "secret", "secret"}}, loads},
		{"a version of zero", "s:x", [][]string{{"HSET", p + "s:x", "v", "0:0"}}, loads},
		{"a version too large", "s:x", [][]string{{"HSET", p + "s:x", "v", "9223372036854775808:0"}}, loads},
		{"a version that is a word", "s:x", [][]string{{"HSET", p + "s:x", "v", "secret:0"}}, loads},
		{"a tail without a length", "s:x", [][]string{{"HSET", p + "s:x", "v", "7"}}, loads},
		{"a tail below zero", "s:x", [][]string{{"HSET", p + "s:x", "v", "7:-1"}}, loads},
		{"a field too many", "s:x", [][]string{{"HSET", p + "s:x", "v", "7:1", "1", "a", "secret", "b"}}, loads},
		{"an input that is missing", "s:x", [][]string{{"HSET", p + "s:x", "v", "7:1", "2", "secret"}}, loads},
		{"a scope that is a list", "s:x", [][]string{{"RPUSH", p + "s:x", "secret"}}, loads},
		{"a scope that is a list, written", "s:x", [][]string{{"RPUSH", p + "s:x", "secret"}}, commits(attend.Write{Scope: "x"})},
		{"a length that is a word, written", "s:x", [][]string{{"HSET", p + "s:x", "v", "7:secret"}}, commits(attend.Write{Scope: "x", Expect: 7})},
		{"a due index that is a string", "due", [][]string{{"SET", p + "due", "secret"}}, commits(rows)},
		{"a log that is a string", "log:decision", [][]string{{"SET", p + "log:decision", "secret"}}, commits(rows)},
		{"ids that are a string", "id:decision", [][]string{{"SET", p + "id:decision", "secret"}}, commits(rows)},
		{"a list that is a string", "ix:decision:ops", [][]string{{"SET", p + "ix:decision:ops", "secret"}}, commits(rows)},
		{"a list that is a string, read", "ix:decision:ops", [][]string{{"SET", p + "ix:decision:ops", "secret"}}, reads(attend.Query{Prefix: "ops"})},
		{"a list that names no row", "ix:decision:ops", [][]string{{"DEL", p + "ix:decision:ops"}, {"RPUSH", p + "ix:decision:ops", "77"}}, reads(attend.Query{Prefix: "ops"})},
		{"ids that name no row", "id:decision", [][]string{{"HSET", p + "id:decision", "d1", "77"}}, func() error { _, err := s.Log().Find(t.Context(), "d1", ""); return err }},
		{"a head that is a list", "head", [][]string{{"DEL", p + "head"}, {"RPUSH", p + "head", "secret"}}, commits(rows)},
		{"a head whose newest is a word", "head", [][]string{{"HSET", p + "head", "newest", "secret"}}, commits(rows)},
		{"a head without an epoch, read", "head", [][]string{{"HDEL", p + "head", "epoch"}}, reads(attend.Query{})},
		{"a row without a body", "log:decision", [][]string{{"XADD", p + "log:decision", "*", "s", "secret"}}, reads(attend.Query{})},
		{"a row without a body, found", "log:decision", [][]string{{"XADD", p + "log:decision", "7777777777777777-0", "s", "secret"}, {"HSET", p + "id:decision", "odd", "7777777777777777"}}, func() error { _, err := s.Log().Find(t.Context(), "odd", ""); return err }},
		{"a row without a time, trimmed", "log:decision", [][]string{{"XADD", p + "log:decision", "*", "a", "1", "b", "2", "c", "secret", "d", "3"}}, func() error {
			return s.Log().Trim(t.Context(), attend.Retain{Age: time.Hour}, noon)
		}},
		{"events that are a string", "events", [][]string{{"SET", p + "events", "secret"}}, appends},
		{"events that are a string, read", "events", [][]string{{"SET", p + "events", "secret"}}, batches},
		{"ids of events that are a string", "ei:ops", [][]string{{"SET", p + "ei:ops", "secret"}}, appends},
		{"a list of events that is a string", "ex:ops", [][]string{{"SET", p + "ex:ops", "secret"}}, appends},
	} {
		before := c.do("DUMP", p+x.key)
		for _, cmd := range x.with {
			c.do(cmd...)
		}
		state := dump(c, p)
		err := x.call()
		if !errors.Is(err, attend.ErrCorrupt) || strings.Contains(err.Error(), "secret") {
			t.Errorf("with %s: %v, want ErrCorrupt, and nothing of what is stored", x.name, err)
		}
		if now := dump(c, p); now != state {
			t.Errorf("with %s: the call that failed has changed something:\n%s\n%s", x.name, state, now)
		}
		c.do("DEL", p+x.key)
		if b, err := before.ToString(); err == nil {
			c.do("RESTORE", p+x.key, "0", b)
		}
	}
	if err := commits(attend.Write{Scope: "x", Rows: []attend.Row{{Scope: "x", Type: "other"}}})(); !errors.Is(err, attend.ErrInvalid) {
		t.Errorf("Commit of a row of another type: %v, want ErrInvalid", err)
	}
	decide(t, s, "d3")
	push(t, l, "e3")
}

// dump is all that is under a prefix.
func dump(c raw, prefix string) string {
	var b strings.Builder
	for _, k := range c.keys(prefix) {
		kind, _ := c.do("TYPE", k).ToString()
		fmt.Fprintf(&b, "%s %q ", kind, k)
		switch kind {
		case "hash":
			m, err := c.do("HGETALL", k).AsStrMap()
			fmt.Fprintln(&b, m, err) // which sorts it
		case "stream":
			rows, err := c.do("XRANGE", k, "-", "+").AsXRange()
			fmt.Fprintln(&b, rows, err)
		case "list":
			l, err := c.do("LRANGE", k, "0", "-1").AsStrSlice()
			fmt.Fprintln(&b, l, err)
		case "zset":
			z, err := c.do("ZRANGE", k, "0", "-1", "WITHSCORES").AsZScores()
			fmt.Fprintln(&b, z, err)
		default:
			v, err := c.do("GET", k).ToString()
			fmt.Fprintln(&b, v, err)
		}
	}
	return b.String()
}

// New leaves the app's client open.
func TestNew(t *testing.T) {
	c := connect(t, servers.Redis(t).URL())
	s, err := redis.New(t.Context(), c.Client, *quiet())
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, attend.Write{Scope: "ops"})
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Load(t.Context(), "ops"); !errors.Is(err, attend.ErrClosed) {
		t.Errorf("Load of a closed store: %v, want ErrClosed", err)
	}
	c.do("PING")
}

func count[T any](t testing.TB, seq iter.Seq2[T, error]) (n int) {
	t.Helper()
	for _, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}
