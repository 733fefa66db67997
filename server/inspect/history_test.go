package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
	"github.com/attend-go/attend/server/inspect"
)

// A book is a log that is written by hand, and counts what is read of it.
type book struct {
	attend.DecisionLog
	t           testing.TB
	store       *memory.Store
	n           int
	reads, rows int
	before      func() // called once, before a read
}

func newBook(t testing.TB) *book {
	s := memory.New()
	return &book{DecisionLog: s.Log(), t: t, store: s}
}

func (b *book) Read(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
	b.reads++
	if f := b.before; f != nil {
		b.before = nil
		f()
	}
	return func(yield func(attend.Entry, error) bool) {
		for e, err := range b.DecisionLog.Read(ctx, q) {
			b.rows++
			if !yield(e, err) {
				return
			}
		}
	}
}

// skip appends n rows that say that events were skipped, named like the row.
func (b *book) skip(s attend.Scope, n int, name string, filler int) {
	b.t.Helper()
	var rows []attend.Row
	for i := range n {
		b.n++
		m := attend.Mark{Step: attend.StepSkipped, At: time.UnixMilli(int64(1000 * b.n)), ID: "w", Events: []attend.EventRef{{ID: fmt.Sprint(name, i)}}}
		if filler > 0 {
			m.Events = append(m.Events, attend.EventRef{ID: strings.Repeat("x", filler)})
		}
		body, err := m.MarshalJSON()
		if err != nil {
			b.t.Fatal(err)
		}
		rows = append(rows, attend.Row{Scope: s, ID: "w", Type: attend.RowVerdict, At: m.At, Body: body})
	}
	b.n++
	if _, err := b.store.Commit(b.t.Context(), []attend.Write{{Scope: attend.Scope(fmt.Sprint("w", b.n)), Rows: rows}}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *book) read(event string, l inspect.Limits) inspect.History {
	b.t.Helper()
	b.reads, b.rows = 0, 0
	h, err := inspect.Read(b.t.Context(), b, inspect.Question{Scope: "a", Event: event}, l)
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

// A scope with very many rows costs no more than a few: the newest are looked
// at, and the answer says from when on.
func TestReadIsBounded(t *testing.T) {
	b := newBook(t)
	b.skip("a", 20_000, "e", 0)
	l := inspect.Limits{Rows: 1000}
	h := b.read("e19999", l)
	if len(h.Rows) != 1 || !h.Limited || h.Since.IsZero() || h.Since.After(h.Rows[0].At) {
		t.Errorf("the newest: %d rows, limited %v since %v", len(h.Rows), h.Limited, h.Since)
	}
	if b.rows > 6*l.Rows+100 {
		t.Errorf("%d rows were read, with a limit of %d", b.rows, l.Rows)
	}
	// All that is newer than Since was looked at, and it is no small part.
	oldest := int(h.Since.UnixMilli()/1000) - 1
	if oldest > 20_000-l.Rows/4 || oldest < 20_000-l.Rows {
		t.Errorf("looked at rows from %d on, with a limit of %d of 20000", oldest, l.Rows)
	}
	if h := b.read(fmt.Sprint("e", oldest), l); len(h.Rows) != 1 {
		t.Errorf("the oldest that was looked at was not found")
	}
	if h := b.read("e5", l); len(h.Rows) != 0 || !h.Limited {
		t.Errorf("an old one: %d rows, limited %v", len(h.Rows), h.Limited)
	}
	if h := b.read("e5", inspect.Limits{}); len(h.Rows) != 1 || h.Limited {
		t.Errorf("within the default limit: %d rows, limited %v", len(h.Rows), h.Limited)
	}
}

func TestReadIsBoundedInBytes(t *testing.T) {
	b := newBook(t)
	b.skip("a", 2000, "e", 10_000)
	l := inspect.Limits{Bytes: 1_000_000}
	h := b.read("e1999", l)
	if len(h.Rows) != 1 || !h.Limited || b.rows > 6*100+100 {
		t.Errorf("%d found of %d rows read, limited %v", len(h.Rows), b.rows, h.Limited)
	}
	big := newBook(t)
	big.skip("a", 20, "e", 600_000) // a single row is more than half of it
	if h := big.read("e19", l); len(h.Rows) != 1 || !h.Limited || big.rows > 10 {
		t.Errorf("%d found of %d rows read, limited %v", len(h.Rows), big.rows, h.Limited)
	}
}

// Few rows of a scope are found in a long log, wherever they are, with few reads.
func TestReadFindsFewAmongMany(t *testing.T) {
	b := newBook(t)
	b.skip("a", 3, "old", 0)
	b.skip("b", 50_000, "e", 0)
	b.skip("a", 3, "mid", 0)
	b.skip("b", 50_000, "e", 0)
	for _, event := range []string{"old0", "old2", "mid1"} {
		h := b.read(event, inspect.Limits{Rows: 6})
		if len(h.Rows) != 1 || h.Limited || b.reads > 30 || b.rows > 30 {
			t.Errorf("%s: %d found, limited %v, %d reads of %d rows", event, len(h.Rows), h.Limited, b.reads, b.rows)
		}
	}
}

// Scopes below this one are covered by its prefix, and are not it.
func TestReadLeavesOutScopesBelow(t *testing.T) {
	b := newBook(t)
	b.skip("a/b", 5, "e", 0)
	b.skip("a", 5, "f", 0)
	if h := b.read("e1", inspect.Limits{}); len(h.Rows) != 0 || h.Limited {
		t.Errorf("an event of a scope below: %d rows", len(h.Rows))
	}
	if h := b.read("f1", inspect.Limits{}); len(h.Rows) != 1 {
		t.Errorf("an event of the scope: %d rows", len(h.Rows))
	}
}

// Retention that is at work meanwhile is no error.
func TestReadWhileRetentionTrims(t *testing.T) {
	b := newBook(t)
	b.skip("a", 3000, "e", 0)
	b.before = func() {
		if err := b.store.Log().Trim(t.Context(), attend.Retain{Verdicts: 10}, time.UnixMilli(1)); err != nil {
			t.Fatal(err)
		}
	}
	if h := b.read("e2999", inspect.Limits{}); len(h.Rows) != 1 {
		t.Errorf("the newest: %d rows", len(h.Rows))
	}
	if h := b.read("e1", inspect.Limits{}); len(h.Rows) != 0 || !h.Trimmed || h.Limited {
		t.Errorf("one that is gone: %d rows, trimmed %v", len(h.Rows), h.Trimmed)
	}
}

func TestReadFails(t *testing.T) {
	b := newBook(t)
	b.skip("a", 1, "e", 0)
	b.before = func() { b.store.Close() }
	if _, err := inspect.Read(t.Context(), b, inspect.Question{Scope: "a", Event: "e"}, inspect.Limits{}); !errors.Is(err, attend.ErrClosed) {
		t.Errorf("Read of a log that closes = %v", err)
	}
	if _, err := inspect.Read(t.Context(), b, inspect.Question{Scope: "a", Event: "e"}, inspect.Limits{}); !errors.Is(err, attend.ErrClosed) {
		t.Errorf("Read of a closed log = %v", err)
	}
}
