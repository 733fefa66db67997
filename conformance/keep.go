package conformance

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
)

func keepCases() []Case {
	return []Case{
		{"scope/load-stays", "returns no memory that a later call writes over", "v0.1", loadStays},
		{"scope/copies-commit", "It copies what it keeps", "v0.1", copiesCommit},
		{"scope/copies-load", "callers and store own their slices", "v0.1", copiesLoad},
		{"scope/bytes", "A store keeps bytes as they are and knows nothing of what is in them.", "v0.1", bytesKept},
		{"scope/bytes-large", "A store keeps bytes as they are and knows nothing of what is in them.", "v0.1", bytesLarge},
		{"scope/names", "It is 1 to 512 bytes of UTF-8 without control characters.", "v0.1", names},
	}
}

func loadStays(ctx context.Context, e Env) error {
	s := e.Store()
	if err := put(ctx, s, attend.Write{Scope: "ops", Snapshot: []byte("first")}); err != nil {
		return err
	}
	if err := put(ctx, s, attend.Write{Scope: "ops", Inputs: in("input")}); err != nil {
		return err
	}
	rec, err := load(ctx, s, "ops")
	if err != nil {
		return err
	}
	for i := range 20 { // later calls, of the same size and in the same places
		other := attend.Scope(fmt.Sprint("other-", i))
		if err := put(ctx, s, attend.Write{Scope: other, Snapshot: []byte("XXXXX")}); err != nil {
			return err
		}
		if err := put(ctx, s, attend.Write{Scope: "ops", Snapshot: []byte("OTHER")}); err != nil {
			return err
		}
		if err := put(ctx, s, attend.Write{Scope: "ops", Inputs: in("INPUT")}); err != nil {
			return err
		}
		if _, err := load(ctx, s, other); err != nil {
			return err
		}
	}
	if string(rec.Snapshot) != "first" || len(rec.Tail) != 1 || string(rec.Tail[0]) != "input" {
		return fmt.Errorf("after later calls a loaded record holds %q and %q, want first and input", rec.Snapshot, rec.Tail)
	}
	return nil
}

func copiesCommit(ctx context.Context, e Env) error {
	s := e.Store()
	inputs, snapshot := in("first", "second"), []byte("state")
	if err := put(ctx, s, attend.Write{Scope: "a", Inputs: inputs}); err != nil {
		return err
	}
	if err := put(ctx, s, attend.Write{Scope: "b", Snapshot: snapshot}); err != nil {
		return err
	}
	copy(inputs[0], "XXXXX")
	inputs[1] = []byte("other")
	copy(snapshot, "XXXXX")
	if rec, err := load(ctx, s, "a"); err != nil || len(rec.Tail) != 2 || !bytes.Equal(bytes.Join(ordered(rec.Tail), nil), []byte("firstsecond")) {
		return fmt.Errorf("the caller changed its inputs after Commit, and the store holds %q (%v)", rec.Tail, err)
	}
	if rec, err := load(ctx, s, "b"); err != nil || string(rec.Snapshot) != "state" {
		return fmt.Errorf("the caller changed its snapshot after Commit, and the store holds %q (%v)", rec.Snapshot, err)
	}
	return nil
}

func copiesLoad(ctx context.Context, e Env) error {
	s := e.Store()
	if err := put(ctx, s, attend.Write{Scope: "ops", Snapshot: []byte("state")}); err != nil {
		return err
	}
	if err := put(ctx, s, attend.Write{Scope: "ops", Inputs: in("input")}); err != nil {
		return err
	}
	rec, err := load(ctx, s, "ops")
	if err != nil {
		return err
	}
	if len(rec.Snapshot) != 5 || len(rec.Tail) != 1 || len(rec.Tail[0]) != 5 {
		return fmt.Errorf("Load = %q and %q, want state and input", rec.Snapshot, rec.Tail)
	}
	copy(rec.Snapshot, "XXXXX")
	copy(rec.Tail[0], "XXXXX")
	_ = append(rec.Snapshot, "XXXXXXXXXX"...)
	_ = append(rec.Tail[0], "XXXXXXXXXX"...)
	rec.Tail[0] = nil
	if err := holds(ctx, s, "ops", "state", "input"); err != nil {
		return fmt.Errorf("after the caller changed what Load returned: %w", err)
	}
	return nil
}

func ordered(bs [][]byte) [][]byte { return slices.SortedFunc(slices.Values(bs), bytes.Compare) }

func bytesKept(ctx context.Context, e Env) error {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	odd := [][]byte{all, {}, {0}, {0, 0}, {0xff}, []byte("'; --\\ % \"\r\n"), []byte("é\xc3"), []byte("null"), []byte(`{"a":1.0, "a":2}`), []byte(" ")}
	s := e.Store()
	for i, b := range odd {
		a, c := attend.Scope(fmt.Sprint("input-", i)), attend.Scope(fmt.Sprint("snapshot-", i))
		if err := put(ctx, s, attend.Write{Scope: a, Inputs: [][]byte{b}}); err != nil {
			return err
		}
		if err := holds(ctx, s, a, "", string(b)); err != nil {
			return fmt.Errorf("an input of odd bytes: %w", err)
		}
		if len(b) == 0 {
			continue
		}
		if err := put(ctx, s, attend.Write{Scope: c, Snapshot: b}); err != nil {
			return err
		}
		if err := holds(ctx, s, c, string(b)); err != nil {
			return fmt.Errorf("a snapshot of odd bytes: %w", err)
		}
	}
	return nil
}

func bytesLarge(ctx context.Context, e Env) error {
	s := e.Store()
	big := bytes.Repeat([]byte("0123456789abcde\x00"), 1<<16)
	for what, w := range map[string]attend.Write{
		"an input":   {Scope: "input", Inputs: [][]byte{big}},
		"a snapshot": {Scope: "snapshot", Snapshot: big},
		"a body":     {Scope: "body", Rows: []attend.Row{{Scope: "body", ID: "d", Type: decision, At: noon, Body: append([]byte(`{"d":"`), append(bytes.Repeat([]byte("x"), 1<<20), `"}`...)...)}}},
	} {
		if err := put(ctx, s, w); err != nil {
			return fmt.Errorf("%s of 1 MiB: %w", what, err)
		}
		rec, err := load(ctx, s, w.Scope)
		if err != nil {
			return err
		}
		if !bytes.Equal(rec.Snapshot, w.Snapshot) || !bytes.Equal(bytes.Join(rec.Tail, nil), bytes.Join(w.Inputs, nil)) {
			return fmt.Errorf("%s of 1 MiB comes back as a snapshot of %d bytes and a tail of %d inputs, or with other bytes", what, len(rec.Snapshot), len(rec.Tail))
		}
	}
	rows, err := read(ctx, s, decisions)
	if err != nil {
		return err
	}
	if len(rows) != 1 || len(rows[0].Body) != 1<<20+8 {
		return fmt.Errorf("a body of 1 MiB comes back otherwise")
	}
	return nil
}

// oddNames are all different, and all legal.
func oddNames() []attend.Scope {
	long := strings.Repeat("x", 511)
	return []attend.Scope{
		"a", "A", " a", "a ", "a  ", " ", "á", "a\u0301", "ß", "ss", "SS", "ı", "i", "I",
		"a/b", "a//b", "a/b/", "/a", "a:b", "..", ".", "a/../b", "-a", "--", "~",
		"a_b", "a%b", "axb", "%", "_", "*", "a*", "?", "[a]", "{a}", "a{b}c", "$1", "#", "a#b",
		"'", "''", "\"", "`", "\\", "a\\b", "a\\\\b", ";", "--;", "a'b", `a"b`, "a,b", "a|b", "<a>", "&amp;",
		"null", "NULL", "0", "00", "1e3", "true", "日本", "🙂", "\u202eabc", "abc", "\ufeffa", "\ufffd", "\u00a0", "\u2028",
		attend.Scope(long + "a"), attend.Scope(long + "b"), attend.Scope(long), attend.Scope(strings.Repeat("é", 256)),
	}
}

func names(ctx context.Context, e Env) error {
	s := e.Store()
	all := oddNames()
	for _, scope := range all {
		if err := scope.Check(); err != nil {
			return err
		}
		w := attend.Write{Scope: scope, Inputs: in(string(scope)), Due: noon, Rows: []attend.Row{row(scope, "d", decision)}}
		out, err := commit(ctx, s, w)
		if err != nil {
			return fmt.Errorf("Commit for scope %.40q: %w", scope, err)
		}
		if out[0].Conflict() {
			return fmt.Errorf("scope %.40q is taken for another one: its first write is a conflict", scope)
		}
	}
	for _, scope := range all {
		if err := holds(ctx, s, scope, "", string(scope)); err != nil {
			return err
		}
	}
	if err := isDue(ctx, s, after(time.Second), slices.Clone(all)...); err != nil {
		return err
	}
	rows, err := read(ctx, s, decisions)
	if err != nil {
		return err
	}
	var got []attend.Scope
	for _, e := range rows {
		got = append(got, e.Scope)
	}
	if err := same("scopes in the log", all, got); err != nil {
		return err
	}
	for i, scope := range all {
		if i%2 == 0 {
			if err := s.Remove(ctx, scope); err != nil {
				return fmt.Errorf("Remove(%.40q): %w", scope, err)
			}
		}
	}
	for i, scope := range all {
		rec, err := load(ctx, s, scope)
		if err != nil {
			return err
		}
		if (rec.Version == 0) != (i%2 == 0) {
			return fmt.Errorf("after every second scope was removed, %.40q is there: %v", scope, rec.Version != 0)
		}
	}
	return nil
}
