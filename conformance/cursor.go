package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
)

func cursorCases() []Case {
	return []Case{
		{"log/positions", "Rows have rising positions with gaps allowed.", "v0.1", cursorPositions},
		{"log/read-on", "An Entry is a row in its place.", "v0.1", cursorReadOn},
		{"log/epoch", "made at random with the store", "v0.1", cursorEpoch},
		{"log/newest", "Newest is the position of the newest row ever appended, 0 before the first.", "v0.1", cursorNewest},
		{"log/zero-cursor", "The zero LogCursor stands before the oldest row kept, whatever the epoch.", "v0.1", cursorZero},
		{"log/zero-cursor-classes", "The zero LogCursor stands before the oldest row kept, whatever the epoch.", "v0.1", cursorZeroClasses},
		{"log/other-epoch", "When q.After is of another epoch, ahead of the log, or rows that q asks for were trimmed behind it, the only pair is a *TruncatedError.", "v0.1", cursorOtherEpoch},
		{"log/ahead", "When q.After is of another epoch, ahead of the log, or rows that q asks for were trimmed behind it, the only pair is a *TruncatedError.", "v0.1", cursorAhead},
		{"log/trimmed", "When q.After is of another epoch, ahead of the log, or rows that q asks for were trimmed behind it, the only pair is a *TruncatedError.", "v0.1", cursorTrimmed},
		{"log/trimmed-class", "A cursor before it is truncated for readers of that class.", "v0.1", cursorTrimmedClass},
		{"log/oldest", "Behind it nothing is missed that is kept", "v0.1", cursorOldest},
	}
}

func cursorPositions(ctx context.Context, e Env) error {
	s := e.Store()
	if err := put(ctx, s, attend.Write{Scope: "ops", Rows: []attend.Row{row("ops", "a", decision), row("ops", "b", verdict), row("ops", "c", letter)}}); err != nil {
		return err
	}
	if err := add(ctx, s, row("b", "d", decision), row("a", "e", verdict)); err != nil {
		return err
	}
	b, err := s.Log().Bounds(ctx)
	if err != nil {
		return fmt.Errorf("Bounds: %w", err)
	}
	entries, err := read(ctx, s, attend.Query{Types: everything})
	if err != nil {
		return err
	}
	// That Read merges types in order is another case.
	slices.SortFunc(entries, func(a, b attend.Entry) int { return cmp.Compare(a.Cursor.Position, b.Cursor.Position) })
	var last attend.Position
	for _, e := range entries {
		if e.Cursor.Epoch != b.Epoch {
			return fmt.Errorf("a row's cursor has epoch %q, the log %q", e.Cursor.Epoch, b.Epoch)
		}
		if e.Cursor.Position <= last {
			return fmt.Errorf("a row at position %d comes after one at %d, want them rising from 1", e.Cursor.Position, last)
		}
		last = e.Cursor.Position
		found, err := s.Log().Find(ctx, e.ID, e.Type)
		if err != nil {
			return fmt.Errorf("Find: %w", err)
		}
		if err := same("cursor of a row that Find returns", e.Cursor, found.Cursor); err != nil {
			return err
		}
	}
	return nil
}

func cursorReadOn(ctx context.Context, e Env) error {
	s := e.Store()
	types := []attend.RowType{decision, verdict, decision, letter, decision, decision, verdict}
	for i, t := range types {
		if err := add(ctx, s, row("ops", fmt.Sprint(i), t)); err != nil {
			return err
		}
	}
	for _, q := range []attend.Query{decisions, only(verdict), only(letter), {Prefix: "ops", Types: []attend.RowType{decision}}} {
		all, err := read(ctx, s, q)
		if err != nil {
			return err
		}
		for i, e := range all {
			q.After = e.Cursor
			if err := reads(ctx, s, fmt.Sprintf("behind the cursor of row %s", e.ID), q, ids(all[i+1:])...); err != nil {
				return err
			}
		}
	}
	return nil
}

func cursorEpoch(ctx context.Context, e Env) error {
	seen := make(map[string]bool)
	for range 3 {
		s := e.Store()
		b, err := s.Log().Bounds(ctx)
		if err != nil {
			return fmt.Errorf("Bounds: %w", err)
		}
		if b.Epoch == "" {
			return errors.New("the epoch is empty")
		}
		if seen[b.Epoch] {
			return fmt.Errorf("two stores have the epoch %q", b.Epoch)
		}
		seen[b.Epoch] = true
		if err := add(ctx, s, row("ops", "a", decision)); err != nil {
			return err
		}
		again, err := s.Log().Bounds(ctx)
		if err != nil {
			return fmt.Errorf("Bounds: %w", err)
		}
		if again.Epoch != b.Epoch {
			return fmt.Errorf("one store's epoch is %q and then %q", b.Epoch, again.Epoch)
		}
	}
	return nil
}

func cursorNewest(ctx context.Context, e Env) error {
	s := e.Store()
	for i, t := range []attend.RowType{decision, letter, verdict, decision, verdict} {
		id := fmt.Sprint(i)
		if err := add(ctx, s, row("ops", id, t)); err != nil {
			return err
		}
		at, err := s.Log().Find(ctx, attend.DecisionID(id), t)
		if err != nil {
			return fmt.Errorf("Find: %w", err)
		}
		b, err := s.Log().Bounds(ctx)
		if err != nil {
			return fmt.Errorf("Bounds: %w", err)
		}
		if b.Newest != at.Cursor.Position {
			return fmt.Errorf("Newest is %d, but the row just committed, a %s row, is at %d", b.Newest, t, at.Cursor.Position)
		}
	}
	before, err := s.Log().Bounds(ctx)
	if err != nil {
		return fmt.Errorf("Bounds: %w", err)
	}
	if err := s.Log().Trim(ctx, attend.Retain{Age: time.Hour}, after(24*time.Hour)); err != nil {
		return fmt.Errorf("Trim: %w", err)
	}
	b, err := s.Log().Bounds(ctx)
	if err != nil {
		return fmt.Errorf("Bounds: %w", err)
	}
	if b.Newest != before.Newest {
		return fmt.Errorf("Newest is %d after every row was trimmed, want %d as before", b.Newest, before.Newest)
	}
	return nil
}

// trimmedLog is a log that holds decisions 6 to 9, verdict rows v0 to v9 between
// them, and lost decisions 0 to 5; before are the cursors of all of them.
func trimmedLog(ctx context.Context, s attend.ScopeStore) (before map[string]attend.LogCursor, err error) {
	for i := range 10 {
		if err := add(ctx, s, row("ops", fmt.Sprint(i), decision), row("ops", fmt.Sprint("v", i), verdict)); err != nil {
			return nil, err
		}
	}
	if before, err = positions(ctx, s); err != nil {
		return nil, err
	}
	if err := s.Log().Trim(ctx, attend.Retain{Count: 4}, noon); err != nil {
		return nil, fmt.Errorf("Trim: %w", err)
	}
	return before, nil
}

// truncated checks that a read is answered with a *TruncatedError alone.
func truncated(ctx context.Context, s attend.ScopeStore, what string, q attend.Query) error {
	got, err := read(ctx, s, q)
	_, ok := errors.AsType[*attend.TruncatedError](err)
	switch {
	case err == nil:
		return fmt.Errorf("a read %s yields %d rows and no error, want a *TruncatedError", what, len(got))
	case !ok:
		return fmt.Errorf("a read %s: %v, want a *TruncatedError", what, err)
	case len(got) > 0:
		return fmt.Errorf("a read %s yields %d rows before its *TruncatedError, want that alone", what, len(got))
	}
	return nil
}

func cursorZero(ctx context.Context, e Env) error {
	s := e.Store()
	if _, err := trimmedLog(ctx, s); err != nil {
		return err
	}
	for _, q := range []attend.Query{decisions, {Prefix: "ops", Types: []attend.RowType{decision}}} {
		if err := readsSet(ctx, s, "a trimmed log, read from the start", q, "6", "7", "8", "9"); err != nil {
			return err
		}
	}
	return nil
}

// Rows of one class may be older than what was trimmed of the other. A read of
// both that began before them comes through, however many pages it takes.
func cursorZeroClasses(ctx context.Context, e Env) error {
	s := e.Store()
	const verdicts = 350
	var rows []attend.Row
	for i := range verdicts {
		rows = append(rows, row("ops", fmt.Sprint("v", i), verdict))
	}
	for i := range 10 {
		rows = append(rows, row("ops", fmt.Sprint(i), decision))
	}
	if err := put(ctx, s, attend.Write{Scope: "ops", Rows: rows}); err != nil {
		return err
	}
	if err := s.Log().Trim(ctx, attend.Retain{Count: 1}, noon); err != nil {
		return fmt.Errorf("Trim: %w", err)
	}
	all, err := read(ctx, s, attend.Query{Types: everything})
	if err != nil {
		return fmt.Errorf("of all types, from the start, after decisions were trimmed that are newer than the verdict rows: %w", err)
	}
	if len(all) != verdicts+1 {
		return fmt.Errorf("of all types, from the start, after decisions were trimmed that are newer than the verdict rows: %d rows, want %d", len(all), verdicts+1)
	}
	return nil
}

func cursorOtherEpoch(ctx context.Context, e Env) error {
	s := e.Store()
	if err := add(ctx, s, row("ops", "a", decision), row("ops", "b", decision)); err != nil {
		return err
	}
	b, err := s.Log().Bounds(ctx)
	if err != nil {
		return fmt.Errorf("Bounds: %w", err)
	}
	for _, epoch := range []string{"", "x", b.Epoch + "x", b.Epoch[:len(b.Epoch)-1]} {
		for _, p := range []attend.Position{0, 1, b.Newest, b.Newest + 1} {
			c := attend.LogCursor{Epoch: epoch, Position: p}
			if c == (attend.LogCursor{}) {
				continue
			}
			if err := truncated(ctx, s, fmt.Sprintf("behind position %d of another epoch", p), from(decision, c)); err != nil {
				return err
			}
		}
	}
	return nil
}

func cursorAhead(ctx context.Context, e Env) error {
	s := e.Store()
	if err := add(ctx, s, row("ops", "a", decision)); err != nil {
		return err
	}
	b, err := s.Log().Bounds(ctx)
	if err != nil {
		return fmt.Errorf("Bounds: %w", err)
	}
	for _, p := range []attend.Position{b.Newest + 1, b.Newest + 1000, 1<<63 - 1} {
		c := attend.LogCursor{Epoch: b.Epoch, Position: p}
		if err := truncated(ctx, s, fmt.Sprintf("behind position %d of a log that goes to %d", p, b.Newest), from(decision, c)); err != nil {
			return err
		}
	}
	return nil
}

func cursorTrimmed(ctx context.Context, e Env) error {
	s := e.Store()
	before, err := trimmedLog(ctx, s)
	if err != nil {
		return err
	}
	for _, id := range []string{"0", "v0", "4"} {
		if err := truncated(ctx, s, "behind a row that was trimmed, with others", from(decision, before[id])); err != nil {
			return err
		}
	}
	start := attend.LogCursor{Epoch: before["0"].Epoch}
	if err := truncated(ctx, s, "behind position 0 of a trimmed log", from(decision, start)); err != nil {
		return err
	}
	return reads(ctx, s, "behind a row that is kept", from(decision, before["7"]), "8", "9")
}

func cursorTrimmedClass(ctx context.Context, e Env) error {
	s := e.Store()
	before, err := trimmedLog(ctx, s)
	if err != nil {
		return err
	}
	verdicts := from(verdict, before["v0"])
	if err := readsSet(ctx, s, "verdict rows, after decisions were trimmed", verdicts, "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9"); err != nil {
		return err
	}
	both := attend.Query{Types: []attend.RowType{decision, verdict}, After: before["v0"]}
	if err := truncated(ctx, s, "of both classes, after decisions were trimmed", both); err != nil {
		return err
	}
	if err := s.Log().Trim(ctx, attend.Retain{Verdicts: 1}, noon); err != nil {
		return fmt.Errorf("Trim: %w", err)
	}
	if err := readsSet(ctx, s, "decisions, after verdict rows were trimmed", from(decision, before["6"]), "7", "8", "9"); err != nil {
		return err
	}
	both.After = before["6"]
	if err := truncated(ctx, s, "of both classes, after verdict rows were trimmed", both); err != nil {
		return err
	}
	b, err := s.Log().Bounds(ctx)
	if err != nil {
		return fmt.Errorf("Bounds: %w", err)
	}
	want := attend.Bounds{
		Epoch: b.Epoch, Newest: b.Newest,
		Trimmed: before["5"].Position, TrimmedVerdicts: before["v8"].Position,
	}
	return same("bounds after decisions to 5 and verdict rows to v8 were trimmed", want, b)
}

// Whatever the cursor was, who goes on from Oldest misses nothing.
func cursorOldest(ctx context.Context, e Env) error {
	s := e.Store()
	before, err := trimmedLog(ctx, s)
	if err != nil {
		return err
	}
	far := before["v9"]
	far.Position += 1000
	for what, c := range map[string]attend.LogCursor{
		"trimmed": before["0"], "of another epoch": {Epoch: "x", Position: 3}, "ahead of the log": far,
	} {
		for _, q := range []attend.Query{decisions, {Types: []attend.RowType{decision, letter}}, only(verdict)} {
			want, err := read(ctx, s, q)
			if err != nil {
				return err
			}
			q.After = c
			_, err = read(ctx, s, q)
			t, ok := errors.AsType[*attend.TruncatedError](err)
			if !ok {
				continue // other cases say so
			}
			q.After = t.Oldest
			got, err := read(ctx, s, q)
			if err != nil {
				return fmt.Errorf("Oldest, where the cursor was %s, is no place to go on from: %w", what, err)
			}
			if err := same(fmt.Sprintf("rows behind Oldest, where the cursor was %s", what), ids(want), ids(got)); err != nil {
				return err
			}
		}
	}
	return nil
}
