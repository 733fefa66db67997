package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	attend "github.com/attend-go/attend/core"
)

func gapCases() []Case {
	return []Case{
		{"events/gap-foreign", "or after is none of this log's cursors, the first batch has Gap set", "v0.1", gapForeign},
		{"events/gap-empty", "it may then have no events", "v0.1", gapEmpty},
		{"events/gap-wait", "WaitEvents returns nil once the scope's log may hold something behind after, at once where it does, and ctx's error when ctx ends.", "v0.1", gapWait},
		{"events/gap-trimmed", "When rows behind after are gone", "v0.1", gapTrimmed},
		{"events/gap-none", "The empty cursor stands before the oldest kept and is no gap.", "v0.1", gapNone},
		{"events/repeat-trimmed", "An event whose id is kept there already is left out.", "v0.1", repeatTrimmed},
	}
}

// foreign are cursors that this log never gave out.
func foreign(ctx context.Context, e Env) (map[string]attend.Cursor, error) {
	l := e.EventLog()
	if err := push(ctx, l, "ops", "x", "y"); err != nil {
		return nil, err
	}
	bs, err := batches(ctx, l, "ops", "")
	if err != nil {
		return nil, err
	}
	_, cursor := eventIDs(bs, "")
	return map[string]attend.Cursor{
		"of another log": cursor, "that is a word": "nonsense", "that is a number": "7", "of odd bytes": "\xff/é'\x00", "of base64": "AAAA",
	}, nil
}

func gapForeign(ctx context.Context, e Env) error {
	cursors, err := foreign(ctx, e)
	if err != nil {
		return err
	}
	l := e.EventLog()
	const n = 1200
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprint(i))
	}
	if err := push(ctx, l, "ops", ids...); err != nil {
		return err
	}
	for what, c := range cursors {
		bs, err := batches(ctx, l, "ops", c)
		if err != nil {
			return fmt.Errorf("behind a cursor %s: %w", what, err)
		}
		if len(bs) == 0 || !bs[0].Gap {
			return fmt.Errorf("behind a cursor %s the first of %d batches has no Gap set", what, len(bs))
		}
		if slices.ContainsFunc(bs[1:], func(b attend.Batch) bool { return b.Gap }) {
			return fmt.Errorf("behind a cursor %s a later batch has Gap set too", what)
		}
		if got, _ := eventIDs(bs, ""); len(got) != n {
			return fmt.Errorf("behind a cursor %s there are %d events, want all %d", what, len(got), n)
		}
	}
	return nil
}

func gapEmpty(ctx context.Context, e Env) error {
	cursors, err := foreign(ctx, e)
	if err != nil {
		return err
	}
	for what, c := range cursors {
		l := e.EventLog()
		if err := push(ctx, l, "other", "a"); err != nil {
			return err
		}
		bs, err := batches(ctx, l, "ops", c)
		if err != nil {
			return fmt.Errorf("behind a cursor %s: %w", what, err)
		}
		if len(bs) != 1 || !bs[0].Gap || len(bs[0].Events) > 0 {
			return fmt.Errorf("behind a cursor %s, in a scope without events, there are %d batches, want one without events that has Gap set", what, len(bs))
		}
		at := bs[0].Cursor
		if at, err = follows(ctx, l, "behind the batch that told of the gap", "ops", at); err != nil {
			return err
		}
		if err := push(ctx, l, "ops", "b"); err != nil {
			return err
		}
		if _, err := follows(ctx, l, "behind the batch that told of the gap, after an append", "ops", at, "b"); err != nil {
			return err
		}
	}
	return nil
}

// A gap is something to hear of at once.
func gapWait(ctx context.Context, e Env) error {
	cursors, err := foreign(ctx, e)
	if err != nil {
		return err
	}
	l := e.EventLog()
	w, err := eventWaiter(l)
	if err != nil {
		return err
	}
	for what, c := range cursors {
		if err := within(ctx, "WaitEvents behind a cursor "+what, func(ctx context.Context) error {
			return w.WaitEvents(ctx, "ops", c)
		}); err != nil {
			return err
		}
	}
	return nil
}

// trimmedEvents appends to a log that keeps few events until the first ones are
// gone. It returns the cursors behind the first one and behind all, and what is
// kept. A log may trim whenever it likes, so this takes as long as it takes.
func trimmedEvents(ctx context.Context, e Env) (l attend.EventLog, early, late attend.Cursor, kept []string, err error) {
	if e.Retaining == nil {
		return nil, "", "", nil, skip("Retain is nil: the log keeps everything")
	}
	l = e.Retaining(attend.Retain{Count: 20})
	if err := push(ctx, l, "ops", "first"); err != nil {
		return nil, "", "", nil, err
	}
	bs, err := batches(ctx, l, "ops", "")
	if err != nil {
		return nil, "", "", nil, err
	}
	_, early = eventIDs(bs, "")
	end := time.Now().Add(patience(ctx))
	for i := 0; ; i++ {
		if err := push(ctx, l, "ops", fmt.Sprint(i)); err != nil {
			return nil, "", "", nil, err
		}
		if i < 40 {
			continue
		}
		if bs, err = batches(ctx, l, "ops", ""); err != nil {
			return nil, "", "", nil, err
		}
		if kept, late = eventIDs(bs, ""); len(kept) <= i {
			return l, early, late, kept, nil // first and 0 are gone
		}
		if time.Now().After(end) {
			return nil, "", "", nil, errors.New("a log that is to keep 20 events trims none of them")
		}
		if i%20 == 0 {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func gapTrimmed(ctx context.Context, e Env) error {
	l, early, late, _, err := trimmedEvents(ctx, e)
	if err != nil {
		return err
	}
	bs, err := batches(ctx, l, "ops", early)
	if err != nil {
		return err
	}
	if len(bs) == 0 || !bs[0].Gap {
		return errors.New("events behind a cursor were trimmed, and the first batch has no Gap set")
	}
	_, at := eventIDs(bs, "")
	if at, err = follows(ctx, l, "behind the batches that told of the gap", "ops", at); err != nil {
		return err
	}
	if _, err = follows(ctx, l, "behind the newest, whatever was trimmed before it", "ops", late); err != nil {
		return err
	}
	// A reader that has read everything loses nothing when all of it goes.
	for i := range 100 {
		if err := push(ctx, l, "other", fmt.Sprint(i)); err != nil {
			return err
		}
	}
	if err := push(ctx, l, "ops", "last"); err != nil {
		return err
	}
	_, err = follows(ctx, l, "behind the newest, after all that it had read was trimmed", "ops", at, "last")
	return err
}

func gapNone(ctx context.Context, e Env) error {
	l, _, _, kept, err := trimmedEvents(ctx, e)
	if err != nil {
		return err
	}
	bs, err := batches(ctx, l, "ops", "")
	if err != nil {
		return err
	}
	if slices.ContainsFunc(bs, func(b attend.Batch) bool { return b.Gap }) {
		return errors.New("behind the empty cursor of a trimmed log a batch has Gap set")
	}
	if got, _ := eventIDs(bs, ""); len(got) == 0 || len(got) > len(kept) {
		return fmt.Errorf("behind the empty cursor of a trimmed log there are %d events, want the %d that are kept", len(got), len(kept))
	}
	return nil
}

func repeatTrimmed(ctx context.Context, e Env) error {
	l, _, late, kept, err := trimmedEvents(ctx, e)
	if err != nil {
		return err
	}
	if slices.Contains(kept, "first") {
		return nil
	}
	if err := push(ctx, l, "ops", "first"); err != nil {
		return err
	}
	bs, err := batches(ctx, l, "ops", late)
	if err != nil {
		return err
	}
	got, _ := eventIDs(bs, "")
	return same("behind the newest, after an id was appended whose event is not kept any more", []string{"first"}, got)
}
