//go:build unix

package sqlite_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/stores/sqlite"
)

// Several processes make the file at the same moment, and then write the same
// scopes, while readers here follow the log.
func TestProcesses(t *testing.T) {
	const processes, each = 4, 100
	file := newFile(t)
	var children []*child
	for i := range processes {
		children = append(children, start(t, job{Do: "commit", File: file, Name: fmt.Sprint("p", i), N: each}))
	}
	s := openStore(t, file, sqlite.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	type found struct {
		ids []string
		err error
	}
	readers := make(chan found)
	for _, prefix := range []attend.Prefix{"", "shared"} {
		go func() {
			ids, err := follow(ctx, s.Log(), prefix, processes*each)
			readers <- found{ids, err}
		}()
	}
	var want []string
	for _, c := range children {
		want = append(want, c.ok(t)...)
	}
	slices.Sort(want)
	a, b := <-readers, <-readers
	for _, f := range []found{a, b} {
		if f.err != nil {
			t.Fatal(f.err)
		}
		got := slices.Sorted(slices.Values(f.ids))
		if !slices.Equal(got, want) {
			t.Errorf("a reader found %d rows, want the %d that the processes committed, once each", len(got), len(want))
		}
	}
	if !slices.Equal(a.ids, b.ids) {
		t.Error("two readers found the rows in two orders")
	}
	// Each scope has just what landed, in the order of its rows.
	for i := range 5 {
		scope := attend.Scope(fmt.Sprint("shared/", i))
		rec, err := s.Load(ctx, scope)
		if err != nil {
			t.Fatal(err)
		}
		var tail, rows []string
		for _, in := range rec.Tail {
			tail = append(tail, string(in))
		}
		for e, err := range s.Log().Read(ctx, attend.Query{Prefix: attend.Prefix(scope)}) {
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, string(e.ID))
		}
		if !slices.Equal(tail, rows) {
			t.Errorf("scope %s has the inputs %q, want those of its rows, %q", scope, tail, rows)
		}
	}
}

// follow reads n decisions as they come.
func follow(ctx context.Context, l attend.DecisionLog, p attend.Prefix, n int) (ids []string, err error) {
	q := attend.Query{Prefix: p}
	for len(ids) < n {
		if err := l.(attend.Waiter).Wait(ctx, q); err != nil {
			return ids, fmt.Errorf("after %d rows: %w", len(ids), err)
		}
		for e, err := range l.Read(ctx, q) {
			if err != nil {
				return ids, err
			}
			ids, q.After = append(ids, string(e.ID)), e.Cursor
		}
	}
	return ids, nil
}

func TestEventLogProcesses(t *testing.T) {
	const processes, each = 3, 100
	file := newFile(t)
	var children []*child
	for i := range processes {
		children = append(children, start(t, job{Do: "append", File: file, Name: fmt.Sprint("p", i), N: each}))
	}
	l := openEvents(t, file, sqlite.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []string
	for after := attend.Cursor(""); len(got) < processes*each+each; {
		if err := l.WaitEvents(ctx, "log", after); err != nil {
			t.Fatalf("after %d events: %v", len(got), err)
		}
		for b, err := range l.Batches(ctx, "log", after) {
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range b.Events {
				got = append(got, e.ID)
			}
			after = b.Cursor
		}
	}
	var want []string
	for _, c := range children {
		want = append(want, c.ok(t)...)
	}
	slices.Sort(want)
	want = slices.Compact(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%d events, want %d, each of them once", len(got), len(want))
	}
}
