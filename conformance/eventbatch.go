package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	attend "github.com/attend-go/attend/core"
)

func batchCases() []Case {
	return []Case{
		{"events/batch-count", "in batches of at most 1,000 events and about 1 MiB", "v0.1", eventBatchCount},
		{"events/batch-bytes", "in batches of at most 1,000 events and about 1 MiB", "v0.1", eventBatchBytes},
		{"events/read-on", "Batches yields what the scope's log holds behind after, oldest first", "v0.1", eventReadOn},
		{"events/holds-nothing", "Nothing is held while it yields.", "v0.1", eventHoldsNothing},
		{"events/left", "Nothing is held while it yields.", "v0.1", eventLeft},
		{"events/error", "An error is its last pair.", "v0.1", eventError},
	}
}

func eventBatchCount(ctx context.Context, e Env) error {
	l := e.EventLog()
	const n = 2300
	for i := 0; i < n; i += 1150 {
		var ids []string
		for k := range 1150 {
			ids = append(ids, fmt.Sprint(i+k))
		}
		if err := push(ctx, l, "ops", ids...); err != nil {
			return err
		}
	}
	bs, err := batches(ctx, l, "ops", "")
	if err != nil {
		return err
	}
	for _, b := range bs {
		if len(b.Events) > 1000 {
			return fmt.Errorf("a batch has %d events, want at most 1,000", len(b.Events))
		}
	}
	got, _ := eventIDs(bs, "")
	slices.Sort(got)
	if len(got) != n || len(slices.Compact(got)) != n {
		return fmt.Errorf("of %d events the batches hold %d", n, len(got))
	}
	return nil
}

func eventBatchBytes(ctx context.Context, e Env) error {
	l := e.EventLog()
	const n, size = 12, 400 << 10
	for i := range n {
		big := event(fmt.Sprint(i))
		big.Text = strings.Repeat("x", size)
		if err := pushEvents(ctx, l, "ops", big); err != nil {
			return err
		}
	}
	bs, err := batches(ctx, l, "ops", "")
	if err != nil {
		return err
	}
	found := 0
	for _, b := range bs {
		found += len(b.Events)
		if bytes := len(b.Events) * size; bytes > 3<<19 {
			return fmt.Errorf("a batch has %d bytes, want about 1 MiB", bytes)
		}
	}
	if found != n {
		return fmt.Errorf("of %d big events the batches hold %d", n, found)
	}
	return nil
}

func eventReadOn(ctx context.Context, e Env) error {
	l := e.EventLog()
	var at attend.Cursor
	for i := range 5 {
		ids := []string{fmt.Sprint(i, "a"), fmt.Sprint(i, "b")}
		if err := push(ctx, l, "ops", ids...); err != nil {
			return err
		}
		if err := push(ctx, l, "other", ids...); err != nil {
			return err
		}
		var err error
		if at, err = follows(ctx, l, "behind the last cursor", "ops", at, ids...); err != nil {
			return err
		}
	}
	_, err := follows(ctx, l, "behind the newest", "ops", at)
	return err
}

func eventHoldsNothing(ctx context.Context, e Env) error {
	l := e.EventLog()
	if err := push(ctx, l, "ops", "a"); err != nil {
		return err
	}
	n := 0
	for b, err := range l.Batches(ctx, "ops", "") {
		if err != nil {
			return fmt.Errorf("Batches: %w", err)
		}
		if n++; n > 1 {
			break // what was appended inside the loop may follow
		}
		for _, c := range []call{
			{"Append to the same scope", func(ctx context.Context) error { return push(ctx, l, "ops", "b") }},
			{"Append to another scope", func(ctx context.Context) error { return push(ctx, l, "other", "b") }},
			{"Batches", func(ctx context.Context) error { _, err := batches(ctx, l, "ops", b.Cursor); return err }},
		} {
			if err := within(ctx, c.name+" inside the loop", c.do); err != nil {
				return err
			}
		}
	}
	if n == 0 {
		return errors.New("Batches yields nothing of a log with one event")
	}
	return nil
}

func eventLeft(ctx context.Context, e Env) error {
	l := e.EventLog()
	if err := push(ctx, l, "ops", "a", "b"); err != nil {
		return err
	}
	for range 20 { // as often as a pool has connections
		for range l.Batches(ctx, "ops", "") {
			break
		}
	}
	if err := within(ctx, "Append after the loop was left", func(ctx context.Context) error { return push(ctx, l, "ops", "c") }); err != nil {
		return err
	}
	return within(ctx, "Batches after the loop was left", func(ctx context.Context) error {
		_, err := batches(ctx, l, "ops", "")
		return err
	})
}

func eventError(ctx context.Context, e Env) error {
	l := e.EventLog()
	for i := range 4 {
		big := event(fmt.Sprint(i))
		big.Text = strings.Repeat("x", 700<<10)
		if err := pushEvents(ctx, l, "ops", big); err != nil {
			return err
		}
	}
	for _, n := range []int{1, 2} {
		if err := lastPair(ctx, n, "Batches", func(ctx context.Context) iter.Seq2[attend.Batch, error] {
			return l.Batches(ctx, "ops", "")
		}); err != nil {
			return err
		}
	}
	return nil
}
