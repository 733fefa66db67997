package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
)

func trimCases() []Case {
	return []Case{
		{"log/trim-count", "newest decisions and dead letters, together", "v0.1", trimCount},
		{"log/trim-verdicts", "decisions and dead letters are one class, verdict rows the other", "v0.1", trimVerdicts},
		{"log/trim-age", "of any row, by its At", "v0.1", trimAge},
		{"log/trim-age-order", "A row is trimmed with all older rows of its class", "v0.1", trimAgeOrder},
		{"log/trim-clock", "Trim deletes the rows that keep does not keep, reckoned from now.", "v0.1", trimClock},
		{"log/trim-no-limit", "A zero field sets no limit.", "v0.1", trimNoLimit},
		{"log/trim-find", "Trim deletes the rows that keep does not keep, reckoned from now.", "v0.1", trimFind},
		{"log/trim-then-add", "A reader that has read up to position p never later finds a row at or before p.", "v0.1", trimThenAdd},
		{"log/trim-while-reading", "rows that q asks for were trimmed behind it", "v0.1", trimWhileReading},
	}
}

func trim(ctx context.Context, s attend.ScopeStore, keep attend.Retain, now time.Time) error {
	if err := s.Log().Trim(ctx, keep, now); err != nil {
		return fmt.Errorf("Trim: %w", err)
	}
	return nil
}

func trimCount(ctx context.Context, e Env) error {
	s := e.Store()
	for i := range 10 {
		t := decision
		if i%2 == 1 {
			t = letter
		}
		if err := add(ctx, s, row("ops", fmt.Sprint(i), t)); err != nil {
			return err
		}
	}
	both := attend.Query{Types: []attend.RowType{decision, letter}}
	for _, n := range []int{7, 3, 1} {
		if err := trim(ctx, s, attend.Retain{Count: n}, noon); err != nil {
			return err
		}
		want := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}[10-n:]
		if err := readsSet(ctx, s, fmt.Sprintf("decisions and letters after Trim to %d", n), both, want...); err != nil {
			return err
		}
	}
	return nil
}

func trimVerdicts(ctx context.Context, e Env) error {
	s := e.Store()
	for i := range 5 {
		if err := add(ctx, s, row("ops", fmt.Sprint("d", i), decision)); err != nil {
			return err
		}
	}
	for i := range 20 {
		if err := add(ctx, s, row("ops", fmt.Sprint("v", i), verdict)); err != nil {
			return err
		}
	}
	if err := trim(ctx, s, attend.Retain{Count: 3}, noon); err != nil {
		return err
	}
	if err := readsSet(ctx, s, "decisions, older than 20 verdict rows, after Trim to a Count of 3", decisions, "d2", "d3", "d4"); err != nil {
		return err
	}
	verdicts := only(verdict)
	if got, err := read(ctx, s, verdicts); err != nil || len(got) != 20 {
		return fmt.Errorf("%d of 20 verdict rows are left after Trim to a Count of 3 (%v), want all", len(got), err)
	}
	if err := trim(ctx, s, attend.Retain{Verdicts: 2}, noon); err != nil {
		return err
	}
	if err := readsSet(ctx, s, "verdict rows after Trim to 2 of them", verdicts, "v18", "v19"); err != nil {
		return err
	}
	return readsSet(ctx, s, "decisions after Trim to 2 verdict rows", decisions, "d2", "d3", "d4")
}

func trimAge(ctx context.Context, e Env) error {
	s := e.Store()
	types := []attend.RowType{decision, verdict, letter}
	for i := range 12 {
		if err := add(ctx, s, rowAt("ops", fmt.Sprint(i), types[i%3], after(time.Duration(i)*time.Minute))); err != nil {
			return err
		}
	}
	if err := trim(ctx, s, attend.Retain{Age: 5*time.Minute + 30*time.Second}, after(11*time.Minute)); err != nil {
		return err
	}
	all := attend.Query{Types: everything}
	if err := readsSet(ctx, s, "rows at minutes 0 to 11, after Trim to five and a half", all, "6", "7", "8", "9", "10", "11"); err != nil {
		return err
	}
	if err := trim(ctx, s, attend.Retain{Age: time.Minute}, after(time.Hour)); err != nil {
		return err
	}
	return readsSet(ctx, s, "rows after Trim to a minute, an hour later", all)
}

// Rows of one log are from many scopes and processes, and need not be in the
// order of their times. What is left has no holes.
func trimAgeOrder(ctx context.Context, e Env) error {
	s := e.Store()
	minutes := []int{0, 50, 5, 40, 10, 45, 55}
	for i, m := range minutes {
		if err := add(ctx, s, rowAt("ops", fmt.Sprint(i), decision, after(time.Duration(m)*time.Minute))); err != nil {
			return err
		}
	}
	if err := trim(ctx, s, attend.Retain{Age: 30 * time.Minute}, after(time.Hour)); err != nil {
		return err
	}
	left, err := read(ctx, s, decisions)
	if err != nil {
		return err
	}
	got := ids(left)
	slices.Sort(got)
	all := []string{"0", "1", "2", "3", "4", "5", "6"}
	if n := len(got); n < 2 || n > 6 || !slices.Equal(got, all[7-n:]) {
		return fmt.Errorf("of rows at minutes %v Trim to those from minute 30 on left %v, want a run of the newest", minutes, got)
	}
	return nil
}

func trimClock(ctx context.Context, e Env) error {
	s := e.Store()
	future := time.Date(2190, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := add(ctx, s, rowAt("ops", "past", decision, noon), rowAt("ops", "future", decision, future)); err != nil {
		return err
	}
	for _, c := range []struct {
		now  time.Time
		want []string
	}{
		{noon, []string{"past", "future"}},
		{future, []string{"future"}},
		{future.AddDate(1, 0, 0), nil},
	} {
		if err := trim(ctx, s, attend.Retain{Age: time.Hour}, c.now); err != nil {
			return err
		}
		if err := readsSet(ctx, s, fmt.Sprintf("rows after Trim to an hour in %d", c.now.Year()), decisions, c.want...); err != nil {
			return err
		}
	}
	return nil
}

func trimNoLimit(ctx context.Context, e Env) error {
	s := e.Store()
	if err := add(ctx, s, row("ops", "a", decision), row("ops", "b", letter), row("ops", "c", verdict)); err != nil {
		return err
	}
	for _, keep := range []attend.Retain{{}, {Count: 2, Verdicts: 1, Age: time.Hour}, {Count: 1000, Verdicts: 1000}} {
		if err := trim(ctx, s, keep, noon); err != nil {
			return err
		}
		if err := readsSet(ctx, s, fmt.Sprintf("three rows after Trim to %+v", keep), attend.Query{Types: everything}, "a", "b", "c"); err != nil {
			return err
		}
	}
	return nil
}

func trimFind(ctx context.Context, e Env) error {
	s := e.Store()
	for _, id := range []string{"gone", "twice", "kept", "twice"} {
		if err := add(ctx, s, row("ops", id, decision)); err != nil {
			return err
		}
	}
	if err := trim(ctx, s, attend.Retain{Count: 2}, noon); err != nil {
		return err
	}
	if _, err := s.Log().Find(ctx, "gone", decision); !errors.Is(err, attend.ErrNotFound) {
		return fmt.Errorf("Find of a row that was trimmed: %v, want an error that is ErrNotFound", err)
	}
	for _, id := range []attend.DecisionID{"twice", "kept"} {
		if _, err := s.Log().Find(ctx, id, decision); err != nil {
			return fmt.Errorf("Find of a row that is kept, after others were trimmed: %w", err)
		}
	}
	return nil
}

func trimThenAdd(ctx context.Context, e Env) error {
	s := e.Store()
	if err := add(ctx, s, row("ops", "a", decision), row("ops", "b", verdict), row("ops", "c", decision)); err != nil {
		return err
	}
	before, err := positions(ctx, s)
	if err != nil {
		return err
	}
	if err := trim(ctx, s, attend.Retain{Age: time.Minute}, after(time.Hour)); err != nil {
		return err
	}
	if err := add(ctx, s, rowAt("ops", "d", decision, after(time.Hour))); err != nil {
		return err
	}
	return reads(ctx, s, "behind the newest of the rows that were trimmed", from(decision, before["c"]), "d")
}

// Leaving rows out in the middle of a read would be silent. A store may have
// them at hand, or end the read with the error that says so.
func trimWhileReading(ctx context.Context, e Env) error {
	s := e.Store()
	const n = 1100
	for i := range n / 100 {
		var rows []attend.Row
		for j := range 100 {
			rows = append(rows, row("ops", fmt.Sprint(i*100+j), decision))
		}
		if err := put(ctx, s, attend.Write{Scope: "ops", Rows: rows}); err != nil {
			return err
		}
	}
	all, err := read(ctx, s, decisions)
	if err != nil {
		return err
	}
	var got []string
	for entry, err := range s.Log().Read(ctx, decisions) {
		if errors.Is(err, attend.ErrTruncated) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("Read: %w", err)
		}
		if got = append(got, string(entry.ID)); len(got) == 3 {
			if err := trim(ctx, s, attend.Retain{Count: 1}, noon); err != nil {
				return err
			}
		}
	}
	if len(got) != len(all) {
		return fmt.Errorf("of %d rows, most of them trimmed while they were read, Read yields %d and no error: the others are lost without a word", len(all), len(got))
	}
	return nil
}
