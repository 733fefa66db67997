package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/attend-go/attend/mcpevents"
)

// noon is the time that the cases live in. It is long past, so that a store that
// reads a clock gives itself away.
var noon = time.UnixMilli(1_000_000_000_123)

func after(d time.Duration) time.Time { return noon.Add(d) }

type (
	store  = mcpevents.SubscriptionStore
	record = mcpevents.SubscriptionRecord
	change = mcpevents.SubscriptionWrite
)

// write is Write with an answer of the right length.
func write(ctx context.Context, s store, writes ...change) ([]uint64, error) {
	versions, err := s.Write(ctx, writes)
	if err != nil {
		return nil, fmt.Errorf("Write of %d: %w", len(writes), err)
	}
	if len(versions) != len(writes) {
		return nil, fmt.Errorf("Write of %d answered %d versions", len(writes), len(versions))
	}
	return versions, nil
}

// put writes each record at the version that Load shows, and returns the versions
// that Load shows then.
func put(ctx context.Context, s store, writes ...change) ([]uint64, error) {
	for i, w := range writes {
		rec, err := load(ctx, s, w.Key)
		if err != nil {
			return nil, err
		}
		writes[i].Expect = rec.Version
	}
	versions, err := write(ctx, s, writes...)
	if err != nil {
		return nil, err
	}
	out := make([]uint64, len(writes))
	for i, w := range writes {
		if versions[i] == 0 {
			return nil, fmt.Errorf("Write of %.70q at the version that Load had just shown was not applied", w.Key)
		}
		rec, err := load(ctx, s, w.Key)
		if err != nil {
			return nil, err
		}
		out[i] = rec.Version
	}
	return out, nil
}

// refuses checks that a write is not applied.
func refuses(ctx context.Context, s store, what string, w change) error {
	versions, err := write(ctx, s, w)
	if err == nil && versions[0] != 0 {
		err = fmt.Errorf("Write %s was applied, as version %d", what, versions[0])
	}
	return err
}

func load(ctx context.Context, s store, key string) (record, error) {
	rec, err := s.Load(ctx, key)
	if err != nil {
		err = fmt.Errorf("Load(%.70q): %w", key, err)
	}
	return rec, err
}

// holds checks a record's value.
func holds(ctx context.Context, s store, key, value string) error {
	rec, err := load(ctx, s, key)
	switch {
	case err != nil:
		return err
	case rec.Version == 0:
		return fmt.Errorf("Load(%.70q): there is no record, want %.40q", key, value)
	case string(rec.Value) != value:
		return fmt.Errorf("Load(%.70q) = %.40q (%d bytes), want %.40q (%d bytes)", key, rec.Value, len(rec.Value), value, len(value))
	}
	return nil
}

// absent checks that there is no record.
func absent(ctx context.Context, s store, key string) error {
	rec, err := load(ctx, s, key)
	if err == nil && rec.Version != 0 {
		err = fmt.Errorf("Load(%.70q) has version %d, want no such record", key, rec.Version)
	}
	return err
}

// due collects Due. It goes to the end even behind an error: a loop that is left
// early is a case of its own.
func due(ctx context.Context, s store, now time.Time) ([]string, error) {
	var keys []string
	var failed error
	for key, err := range s.Due(ctx, now) {
		if err != nil {
			failed = fmt.Errorf("Due: %w", err)
		} else if failed == nil {
			keys = append(keys, key)
		}
	}
	return keys, failed
}

// isDue checks which records are due, in any order.
func isDue(ctx context.Context, s store, now time.Time, want ...string) error {
	got, err := due(ctx, s, now)
	if err != nil {
		return err
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Errorf("due at noon%+d ms, sorted: %.200q, want %.200q", now.Sub(noon).Milliseconds(), got, want)
	}
	return nil
}

// first returns the first error that there is.
func first(checks ...func() error) error {
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}
