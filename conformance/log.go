package conformance

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
)

func logCases() []Case {
	return []Case{
		{"log/same", "Log returns the store's decision log, the same one each time.", "v0.1", logSame},
		{"log/empty", "0 before the first", "v0.1", logEmpty},
		{"log/order", "A DecisionLog is every decision in one order, read by position.", "v0.1", logOrder},
		{"log/write-order", "appended to the log, in order", "v0.1", logWriteOrder},
		{"log/pages", "Read yields the rows that q asks for, oldest first, and ends behind the newest that was there when it came to it.", "v0.1", logPages},
		{"log/types", "empty: decisions alone", "v0.1", logTypes},
		{"log/prefix", "One that ends in / or : covers the scopes that begin with it; any other covers itself and what follows it behind a / or a :", "v0.1", logPrefix},
		{"log/holds-nothing", "It holds no lock, row or transaction while it yields.", "v0.1", logHoldsNothing},
		{"log/left", "It holds no lock, row or transaction while it yields.", "v0.1", logLeft},
		{"log/error", "An error is its last pair.", "v0.1", logError},
		{"log/closed", "A closed store answers every call with an error that is ErrClosed.", "v0.1", logClosed},
	}
}

func logSame(ctx context.Context, e Env) error {
	s := e.Store()
	l := s.Log()
	before, err := l.Bounds(ctx)
	if err != nil {
		return fmt.Errorf("Bounds: %w", err)
	}
	if err := add(ctx, s, row("ops", "a", decision)); err != nil {
		return err
	}
	for _, l := range []attend.DecisionLog{l, s.Log()} {
		b, err := l.Bounds(ctx)
		if err != nil {
			return fmt.Errorf("Bounds: %w", err)
		}
		if b.Epoch != before.Epoch {
			return fmt.Errorf("the epoch of one store's log is %q and then %q", before.Epoch, b.Epoch)
		}
		if _, err := l.Find(ctx, "a", decision); err != nil {
			return fmt.Errorf("Find of a row that was committed between two calls of Log: %w", err)
		}
	}
	return nil
}

func logEmpty(ctx context.Context, e Env) error {
	s := e.Store()
	for range 2 {
		b, err := s.Log().Bounds(ctx)
		if err != nil {
			return fmt.Errorf("Bounds: %w", err)
		}
		if err := same("bounds of an empty log", attend.Bounds{Epoch: b.Epoch}, b); err != nil {
			return err
		}
		if err := reads(ctx, s, "an empty log, read from the start", attend.Query{Types: everything}); err != nil {
			return err
		}
		here := attend.LogCursor{Epoch: b.Epoch}
		if err := reads(ctx, s, "an empty log, read from its own cursor", attend.Query{Types: everything, After: here}); err != nil {
			return err
		}
		// A scope without rows adds nothing.
		if err := put(ctx, s, attend.Write{Scope: "ops", Inputs: in("a")}); err != nil {
			return err
		}
	}
	return nil
}

// The order is that of the commits, whatever the rows' times, scopes and ids.
func logOrder(ctx context.Context, e Env) error {
	s := e.Store()
	var want []string
	for i := range 20 {
		scope, id := attend.Scope(fmt.Sprint("s-", i*7%20)), fmt.Sprint("d-", i*3%20)
		if err := add(ctx, s, rowAt(scope, id, decision, after(-time.Duration(i)*time.Second))); err != nil {
			return err
		}
		want = append(want, id)
	}
	return reads(ctx, s, "rows of one commit after the other", decisions, want...)
}

func logWriteOrder(ctx context.Context, e Env) error {
	s := e.Store()
	var rows []attend.Row
	var want []string
	for i := range 12 {
		id := fmt.Sprint(i * 5 % 12)
		rows, want = append(rows, row("ops", id, decision)), append(want, id)
	}
	if err := put(ctx, s, attend.Write{Scope: "ops", Rows: rows}); err != nil {
		return err
	}
	return reads(ctx, s, "the rows of one write", decisions, want...)
}

func logPages(ctx context.Context, e Env) error {
	s := e.Store()
	const n = 1100
	var rows []attend.Row
	for i := range n {
		rows = append(rows, row("ops", fmt.Sprint(i), decision))
	}
	if err := put(ctx, s, attend.Write{Scope: "ops", Rows: rows}); err != nil {
		return err
	}
	seen := make(map[string]int)
	entries, err := read(ctx, s, attend.Query{Prefix: "ops"})
	if err != nil {
		return err
	}
	for _, e := range entries {
		seen[string(e.ID)]++
	}
	if len(entries) != n || len(seen) != n {
		return fmt.Errorf("of %d rows Read yields %d, %d of them different", n, len(entries), len(seen))
	}
	return nil
}

func logTypes(ctx context.Context, e Env) error {
	s := e.Store()
	types := []attend.RowType{verdict, decision, letter, decision, verdict, verdict, letter, decision}
	all := make(map[attend.RowType][]string)
	for i, t := range types {
		id := fmt.Sprint(i, "-", t)
		if err := add(ctx, s, row("ops", id, t)); err != nil {
			return err
		}
		all[t] = append(all[t], id)
	}
	if err := reads(ctx, s, "a query that names no types", attend.Query{}, all[decision]...); err != nil {
		return err
	}
	for _, want := range [][]attend.RowType{
		{decision}, {letter}, {verdict}, {decision, letter}, {verdict, decision}, {letter, verdict}, everything, {letter, letter},
	} {
		q := attend.Query{Types: want}
		var ids []string
		for i, t := range types {
			if q.Wants(t) {
				ids = append(ids, fmt.Sprint(i, "-", t))
			}
		}
		if err := reads(ctx, s, fmt.Sprintf("a query of types %q", want), q, ids...); err != nil {
			return err
		}
	}
	return nil
}

func logPrefix(ctx context.Context, e Env) error {
	s := e.Store()
	scopes := []attend.Scope{
		"ops", "ops/db", "ops/db/1", "ops:x", "opsx", "ops-x", "Ops", "op", "ops/", "ops//db",
		"a_b", "axb", "a_b/c", "axb/c", "a%", "abc", "a%/x", "abc/x", "a*", "a[b]", `a\b`, `a\b/c`, "é/a", "e/a",
		attend.Scope(strings.Repeat("deep/", 40) + "a"), attend.Scope(strings.Repeat("deep/", 40) + "b"), ":", ":a", "/a",
	}
	for _, scope := range scopes {
		if err := add(ctx, s, row(scope, string(scope), decision)); err != nil {
			return err
		}
	}
	for _, p := range []attend.Prefix{
		"", "ops", "ops/", "ops:", "op", "o", "ops/db", "ops/d", "ops//", "OPS", "a", "a_b", "a_", "a%", "%", "_", "a*", "a[b]", `a\b`, "é", ":", "/",
		attend.Prefix(strings.Repeat("deep/", 40)), attend.Prefix(strings.Repeat("deep/", 40) + "a"), attend.Prefix(strings.Repeat("deep/", 20)), "nobody",
	} {
		var want []string
		for _, scope := range scopes {
			if p.Covers(scope) {
				want = append(want, string(scope))
			}
		}
		if err := reads(ctx, s, fmt.Sprintf("a query of prefix %.20q", p), attend.Query{Prefix: p}, want...); err != nil {
			return err
		}
	}
	return nil
}

func logHoldsNothing(ctx context.Context, e Env) error {
	s := e.Store()
	if err := add(ctx, s, row("ops", "a", decision), row("ops", "b", decision), row("ops", "c", decision)); err != nil {
		return err
	}
	n := 0
	for entry, err := range s.Log().Read(ctx, decisions) {
		if err != nil {
			return fmt.Errorf("Read: %w", err)
		}
		if n++; n > 3 {
			break // what was committed inside the loop may follow
		}
		scope := attend.Scope(fmt.Sprint("new-", n))
		for _, c := range []call{
			{"Commit", func(ctx context.Context) error { return add(ctx, s, row(scope, "new", decision)) }},
			{"Remove", func(ctx context.Context) error { return s.Remove(ctx, scope) }},
			{"Find", func(ctx context.Context) error { _, err := s.Log().Find(ctx, entry.ID, decision); return err }},
			{"Read", func(ctx context.Context) error { _, err := read(ctx, s, decisions); return err }},
			{"Bounds", func(ctx context.Context) error { _, err := s.Log().Bounds(ctx); return err }},
			{"Trim", func(ctx context.Context) error { return s.Log().Trim(ctx, attend.Retain{Count: 100}, noon) }},
		} {
			if err := within(ctx, c.name+" inside the loop", c.do); err != nil {
				return err
			}
		}
	}
	if n < 3 {
		return fmt.Errorf("Read yielded %d of 3 rows, with calls inside the loop", n)
	}
	return nil
}

func logLeft(ctx context.Context, e Env) error {
	s := e.Store()
	var rows []attend.Row
	for i := range 120 {
		rows = append(rows, row("ops", fmt.Sprint(i), decision))
	}
	if err := put(ctx, s, attend.Write{Scope: "ops", Rows: rows}); err != nil {
		return err
	}
	for range 20 { // as often as a pool has connections
		for range s.Log().Read(ctx, decisions) {
			break
		}
	}
	for _, c := range append(storeCalls(s), logCalls(s)...) {
		if c.name == "Find" || c.name == "Wait" {
			continue // which find nothing, and wait for it
		}
		if err := within(ctx, c.name+" after the loop was left", c.do); err != nil {
			return err
		}
	}
	return nil
}

func logError(ctx context.Context, e Env) error {
	s := e.Store()
	var rows []attend.Row
	for i := range 350 {
		rows = append(rows, row("ops", fmt.Sprint(i), decision))
	}
	if err := put(ctx, s, attend.Write{Scope: "ops", Rows: rows}); err != nil {
		return err
	}
	for _, n := range []int{1, 100, 150} {
		if err := lastPair(ctx, n, "Read", func(ctx context.Context) iter.Seq2[attend.Entry, error] {
			return s.Log().Read(ctx, decisions)
		}); err != nil {
			return err
		}
	}
	return nil
}

func logClosed(ctx context.Context, e Env) error {
	s := e.Store()
	if err := add(ctx, s, row("ops", "a", decision)); err != nil {
		return err
	}
	before := logCalls(s)
	if err := closer(s); err != nil {
		return err
	}
	if err := closed(ctx, before); err != nil {
		return err
	}
	return closed(ctx, logCalls(s))
}

// logCalls is every method of the log. Find finds nothing, and Wait may block.
func logCalls(s attend.ScopeStore) []call {
	l := s.Log()
	calls := []call{
		{"Bounds", func(ctx context.Context) error { _, err := l.Bounds(ctx); return err }},
		{"Read", func(ctx context.Context) error { _, err := read(ctx, s, decisions); return err }},
		{"Find", func(ctx context.Context) error { _, err := l.Find(ctx, "nothing", decision); return err }},
		{"Trim", func(ctx context.Context) error { return l.Trim(ctx, attend.Retain{Count: 100}, noon) }},
	}
	if w, ok := l.(attend.Waiter); ok {
		calls = append(calls, call{"Wait", func(ctx context.Context) error {
			return w.Wait(ctx, decisions)
		}})
	}
	return calls
}
