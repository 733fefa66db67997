package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	attend "github.com/attend-go/attend/core"
)

func eventCases() []Case {
	return []Case{
		{"events/order", "Append adds the events to the scope's log, all of them or none, in order", "v0.1", eventOrder},
		{"events/scopes", "Append adds the events to the scope's log, all of them or none, in order", "v0.1", eventScopes},
		{"events/refused", "Append adds the events to the scope's log, all of them or none, in order", "v0.1", eventRefused},
		{"events/refused-place", "its error names the event's place", "v0.1", eventRefusedPlace},
		{"events/clean", "Events are kept as Event.Clean returns them", "v0.1", eventClean},
		{"events/repeat", "An event whose id is kept there already is left out.", "v0.1", eventRepeat},
		{"events/repeat-scope", "An event whose id is kept there already is left out.", "v0.1", eventRepeatScope},
		{"events/ids", "ID is 1 to 256 bytes of UTF-8 without control characters.", "v0.1", eventOddIDs},
		{"events/copies", "callers and store own their slices", "v0.1", eventCopies},
		{"events/nothing", "ends behind the newest that was there when it came to it", "v0.1", eventNothing},
		{"events/closed", "A closed one answers with an error that is ErrClosed.", "v0.1", eventClosed},
	}
}

func event(id string) attend.Event {
	return attend.Event{ID: id, At: noon, Name: "test.happened", Data: []byte(`{"n":1}`)}
}

func push(ctx context.Context, l attend.EventLog, scope attend.Scope, ids ...string) error {
	var events []attend.Event
	for _, id := range ids {
		events = append(events, event(id))
	}
	return pushEvents(ctx, l, scope, events...)
}

func pushEvents(ctx context.Context, l attend.EventLog, scope attend.Scope, events ...attend.Event) error {
	if err := l.Append(ctx, scope, events); err != nil {
		return fmt.Errorf("Append of %d events: %w", len(events), err)
	}
	return nil
}

func batches(ctx context.Context, l attend.EventLog, scope attend.Scope, after attend.Cursor) ([]attend.Batch, error) {
	return collect("Batches", l.Batches(ctx, scope, after))
}

// eventIDs are the ids in the batches, and the cursor behind them.
func eventIDs(bs []attend.Batch, after attend.Cursor) ([]string, attend.Cursor) {
	var out []string
	for _, b := range bs {
		for _, e := range b.Events {
			out = append(out, e.ID)
		}
		after = b.Cursor
	}
	return out, after
}

// follows checks the ids behind a cursor, and that there is no gap before them,
// and returns the cursor behind.
func follows(ctx context.Context, l attend.EventLog, what string, scope attend.Scope, after attend.Cursor, want ...string) (attend.Cursor, error) {
	bs, err := batches(ctx, l, scope, after)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	if slices.ContainsFunc(bs, func(b attend.Batch) bool { return b.Gap }) {
		return "", fmt.Errorf("%s: a batch has Gap set, and nothing was lost", what)
	}
	got, cursor := eventIDs(bs, after)
	return cursor, same(what, want, got)
}

func eventOrder(ctx context.Context, e Env) error {
	l := e.EventLog()
	for _, ids := range [][]string{{"z"}, {"b", "y", "a"}, {"c"}} {
		if err := push(ctx, l, "ops", ids...); err != nil {
			return err
		}
	}
	_, err := follows(ctx, l, "events in the order of their appends", "ops", "", "z", "b", "y", "a", "c")
	return err
}

func eventScopes(ctx context.Context, e Env) error {
	l := e.EventLog()
	all := oddNames()
	for i, scope := range all {
		if err := push(ctx, l, scope, fmt.Sprint(i)); err != nil {
			return err
		}
	}
	for i, scope := range all {
		if _, err := follows(ctx, l, fmt.Sprintf("events of scope %q", scope), scope, "", fmt.Sprint(i)); err != nil {
			return err
		}
	}
	return nil
}

func eventRefused(ctx context.Context, e Env) error {
	l := e.EventLog()
	if err := push(ctx, l, "ops", "a"); err != nil {
		return err
	}
	bad := event("c")
	bad.Name = ""
	if err := l.Append(ctx, "ops", []attend.Event{event("b"), bad, event("d")}); err == nil {
		return errors.New("Append takes an event that has no name")
	}
	_, err := follows(ctx, l, "events after a refused append", "ops", "", "a")
	return err
}

func eventRefusedPlace(ctx context.Context, e Env) error {
	l := e.EventLog()
	bad := event("c")
	bad.Data = []byte("{")
	for i := range 3 {
		events := []attend.Event{event("a"), event("b"), event("d")}
		events[i] = bad
		err := l.Append(ctx, "ops", events)
		at, ok := errors.AsType[*attend.EventError](err)
		if !ok || at.Index != i || !errors.Is(err, attend.ErrInvalid) {
			return fmt.Errorf("Append whose event %d is invalid: %v, want an *EventError that names it and is ErrInvalid", i, err)
		}
	}
	big := event("big")
	big.Text = strings.Repeat("x", attend.MaxEventBytes)
	if err := l.Append(ctx, "ops", []attend.Event{big}); !errors.Is(err, attend.ErrTooLarge) {
		return fmt.Errorf("Append of an event over its limit: %v, want an error that is ErrTooLarge", err)
	}
	return nil
}

func eventClean(ctx context.Context, e Env) error {
	l := e.EventLog()
	in := []attend.Event{
		{ID: "plain", At: noon, Name: "a.b", Data: []byte(`{"n":1}`), Text: "one line"},
		{ID: "bare", Name: "a"},
		{ID: "é'%\\\"", At: time.Unix(1_700_000_000, 123_999_999), Name: "日本", Data: []byte(" { \"b\" : 1.0, \"a\":[1, 2] ,\"b\":2}\n"), Text: "x\xffy\x00z"},
		{ID: "odd", At: noon, Name: "a", Data: []byte(`"\ud800 \u0000 12345678901234567890.10"`), Text: "line\nline"},
		{ID: "stamped", At: noon, Name: "a", Source: "mcp:x", Kind: attend.KindFlush},
	}
	var want []attend.Event
	for _, e := range in {
		clean, err := e.Clean()
		if err != nil {
			return err
		}
		want = append(want, clean)
	}
	if err := pushEvents(ctx, l, "ops", in...); err != nil {
		return err
	}
	bs, err := batches(ctx, l, "ops", "")
	if err != nil {
		return err
	}
	var got []attend.Event
	for _, b := range bs {
		got = append(got, b.Events...)
	}
	for _, events := range [][]attend.Event{want, got} {
		slices.SortFunc(events, func(a, b attend.Event) int { return strings.Compare(a.ID, b.ID) })
	}
	return same("events as Clean returns them, by id", want, got)
}

func eventRepeat(ctx context.Context, e Env) error {
	l := e.EventLog()
	for _, ids := range [][]string{{"a", "b"}, {"b", "c", "a", "c"}, {"d"}, {"d", "a"}} {
		if err := push(ctx, l, "ops", ids...); err != nil {
			return err
		}
	}
	other := event("a")
	other.Text = "another text"
	if err := pushEvents(ctx, l, "ops", other); err != nil {
		return err
	}
	_, err := follows(ctx, l, "events of which some were appended twice", "ops", "", "a", "b", "c", "d")
	return err
}

func eventRepeatScope(ctx context.Context, e Env) error {
	l := e.EventLog()
	for _, scope := range []attend.Scope{"x", "y"} {
		if err := push(ctx, l, scope, "same"); err != nil {
			return err
		}
	}
	for _, scope := range []attend.Scope{"x", "y"} {
		if _, err := follows(ctx, l, "an id that two scopes have", scope, "", "same"); err != nil {
			return err
		}
	}
	return nil
}

// Ids that are easily taken for each other, and pairs of scope and id that are
// the same text when they are joined.
func eventOddIDs(ctx context.Context, e Env) error {
	l := e.EventLog()
	long := strings.Repeat("x", attend.MaxIDBytes-1)
	ids := []string{long + "a", long + "b", long, strings.Repeat("é", attend.MaxIDBytes/2)}
	for _, name := range oddNames() {
		if len(name) <= attend.MaxIDBytes {
			ids = append(ids, string(name))
		}
	}
	for _, id := range ids {
		if err := push(ctx, l, "ops", id); err != nil {
			return fmt.Errorf("event %.40q: %w", id, err)
		}
	}
	again := slices.Clone(ids)
	slices.Reverse(again)
	if err := push(ctx, l, "ops", again...); err != nil {
		return err
	}
	if _, err := follows(ctx, l, "events of odd ids, appended twice", "ops", "", ids...); err != nil {
		return err
	}
	for i, sep := range []string{"", ":", "/", "-", "_", ".", ",", ";", "|", "#", "%", "\\", "'", "\"", "}{", "][", " ", "::", "é"} {
		a, b, c := fmt.Sprint("a", i, "-"), "b", fmt.Sprint("c", i)
		for _, of := range []struct{ scope, id string }{{a + sep + b, c}, {a, b + sep + c}} {
			if err := push(ctx, l, attend.Scope(of.scope), of.id); err != nil {
				return err
			}
			if _, err := follows(ctx, l, fmt.Sprintf("event %q of scope %q", of.id, of.scope), attend.Scope(of.scope), "", of.id); err != nil {
				return err
			}
		}
	}
	return nil
}

func eventCopies(ctx context.Context, e Env) error {
	l := e.EventLog()
	mine := event("a")
	if err := pushEvents(ctx, l, "ops", mine); err != nil {
		return err
	}
	copy(mine.Data, "XXXXXXX")
	for _, who := range []string{"appended", "read"} {
		bs, err := batches(ctx, l, "ops", "")
		if err != nil {
			return err
		}
		if len(bs) != 1 || len(bs[0].Events) != 1 {
			return fmt.Errorf("one event comes back in %d batches", len(bs))
		}
		if err := same("data, after the caller changed what it had "+who, `{"n":1}`, string(bs[0].Events[0].Data)); err != nil {
			return err
		}
		copy(bs[0].Events[0].Data, "XXXXXXX")
		bs[0].Events[0].ID = "X"
	}
	_, err := follows(ctx, l, "the event, after the caller changed what it had read", "ops", "", "a")
	return err
}

func eventNothing(ctx context.Context, e Env) error {
	l := e.EventLog()
	if err := pushEvents(ctx, l, "ops"); err != nil {
		return err
	}
	if err := push(ctx, l, "other", "a"); err != nil {
		return err
	}
	bs, err := batches(ctx, l, "ops", "")
	if err != nil {
		return err
	}
	if len(bs) > 0 {
		return fmt.Errorf("a scope that has no events has %d batches, want none", len(bs))
	}
	if bs, err = batches(ctx, l, "other", ""); err != nil {
		return err
	}
	_, end := eventIDs(bs, "")
	if bs, err = batches(ctx, l, "other", end); err != nil {
		return err
	}
	if len(bs) > 0 {
		return fmt.Errorf("behind the newest event there are %d batches, want none", len(bs))
	}
	return nil
}

func eventClosed(ctx context.Context, e Env) error {
	l := e.EventLog()
	if err := push(ctx, l, "ops", "a"); err != nil {
		return err
	}
	if err := closer(l); err != nil {
		return err
	}
	calls := []call{
		{"Append", func(ctx context.Context) error { return l.Append(ctx, "ops", []attend.Event{event("b")}) }},
		{"Batches", func(ctx context.Context) error { _, err := batches(ctx, l, "ops", ""); return err }},
	}
	if w, ok := l.(attend.EventWaiter); ok {
		calls = append(calls, call{"WaitEvents", func(ctx context.Context) error { return w.WaitEvents(ctx, "new", "") }})
	}
	return closed(ctx, calls)
}
