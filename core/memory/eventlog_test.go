package memory_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
)

func appendIDs(t testing.TB, l *memory.EventLog, scope attend.Scope, ids ...string) {
	t.Helper()
	var events []attend.Event
	for _, id := range ids {
		events = append(events, attend.Event{ID: id, Name: "test"})
	}
	if err := l.Append(t.Context(), scope, events); err != nil {
		t.Fatal(err)
	}
}

// read returns the ids behind after, with "gap" before a batch that has one,
// and the last cursor.
func read(t testing.TB, l *memory.EventLog, scope attend.Scope, after attend.Cursor) (string, attend.Cursor) {
	t.Helper()
	var out []string
	for b, err := range l.Batches(t.Context(), scope, after) {
		if err != nil {
			t.Fatal(err)
		}
		if b.Gap {
			out = append(out, "gap")
		}
		for _, e := range b.Events {
			out = append(out, e.ID)
		}
		after = b.Cursor
	}
	return strings.Join(out, " "), after
}

func TestEventRetention(t *testing.T) {
	l := memory.NewEventLogWith(memory.Options{Retain: attend.Retain{Count: 4}})
	appendIDs(t, l, "a", "1", "2")
	_, early := read(t, l, "a", "")
	appendIDs(t, l, "a", "3", "4")
	_, late := read(t, l, "a", "")
	appendIDs(t, l, "b", "1", "2", "3")
	for _, c := range []struct {
		after attend.Cursor
		want  string
	}{{"", "4"}, {early, "gap 4"}, {late, ""}} {
		if got, _ := read(t, l, "a", c.after); got != c.want {
			t.Errorf("behind %q: %q, want %q", c.after, got, c.want)
		}
	}
	// All of a's events go. Who had read them lost nothing.
	appendIDs(t, l, "b", "4", "5")
	if got, _ := read(t, l, "a", late); got != "" {
		t.Errorf("the reader that had everything gets %q, want nothing", got)
	}
	got, behind := read(t, l, "a", early)
	if got != "gap" {
		t.Errorf("the reader that had not gets %q, want a gap alone", got)
	}
	if got, _ := read(t, l, "a", behind); got != "" {
		t.Errorf("behind the gap: %q, want nothing", got)
	}
	appendIDs(t, l, "a", "1")
	if got, _ := read(t, l, "a", behind); got != "1" {
		t.Errorf("an id that is not kept any more, appended again: %q, want 1", got)
	}
}

func TestEventRetentionByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.NewEventLogWith(memory.Options{Retain: attend.Retain{Age: time.Hour}})
		appendIDs(t, l, "a", "1")
		time.Sleep(time.Hour)
		appendIDs(t, l, "a", "2")
		if got, _ := read(t, l, "a", ""); got != "1 2" {
			t.Errorf("after an hour: %q, want 1 2", got)
		}
		time.Sleep(time.Millisecond)
		appendIDs(t, l, "a", "3")
		if got, _ := read(t, l, "a", ""); got != "2 3" {
			t.Errorf("after an hour and a millisecond: %q, want 2 3", got)
		}
	})
}

func TestEventHandles(t *testing.T) {
	a := memory.NewEventLog()
	appendIDs(t, a, "s", "1")
	b := a.Reopen()
	waited := make(chan error)
	_, at := read(t, a, "s", "")
	go func() { waited <- a.WaitEvents(context.Background(), "s", at) }()
	a.Close()
	if err := <-waited; !errors.Is(err, attend.ErrClosed) {
		t.Errorf("WaitEvents on the closed handle = %v, want ErrClosed", err)
	}
	if err := a.Append(t.Context(), "s", nil); !errors.Is(err, attend.ErrClosed) {
		t.Errorf("Append on the closed handle = %v, want ErrClosed", err)
	}
	appendIDs(t, b, "s", "2")
	if got, _ := read(t, b, "s", at); got != "2" {
		t.Errorf("the other handle reads %q, want 2", got)
	}
}

// A wake-up for nothing drops the stream while its waiter is on its way out;
// the next waiter must not lose its own.
func TestWaitersOfAnEmptyScope(t *testing.T) {
	l := memory.NewEventLog()
	for range 200 {
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- l.WaitEvents(t.Context(), "s", "") }()
		for memory.Streams(l) == 0 {
			time.Sleep(10 * time.Microsecond)
		}
		if err := l.Append(t.Context(), "s", nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { second <- l.WaitEvents(ctx, "s", "") }()
		<-first
		for memory.Streams(l) == 0 {
			time.Sleep(10 * time.Microsecond)
		}
		cancel()
		<-second
	}
	if n := memory.Streams(l); n != 0 {
		t.Errorf("%d scopes are left, want none", n)
	}
}

func TestOneBatchIsAboutAMebibyte(t *testing.T) {
	l := memory.NewEventLog()
	var events []attend.Event
	for i := range 10 {
		events = append(events, attend.Event{ID: fmt.Sprint(i), Name: "big", Text: strings.Repeat("x", 300<<10)})
	}
	if err := l.Append(t.Context(), "s", events); err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for b, err := range l.Batches(t.Context(), "s", "") {
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(b.Events))
	}
	if fmt.Sprint(sizes) != "[3 3 3 1]" {
		t.Errorf("batches of %v events, want [3 3 3 1]", sizes)
	}
}
