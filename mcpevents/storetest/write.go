package storetest

import (
	"context"
	"fmt"
	"time"
)

// maxGroup is how many writes a server puts into one call.
const maxGroup = 256

func writeCases() []Case {
	return []Case{
		{Name: "load-unknown", Rule: "for an unknown key the zero one and no error", Run: loadUnknown},
		{Name: "write", Rule: "Write applies each write whose Expect is the record's version (0: there is none)", Run: writeRecord},
		{Name: "write-whole", Rule: "A SubscriptionWrite replaces or removes one record.", Run: writeWhole},
		{Name: "write-old", Rule: "Write applies each write whose Expect is the record's version (0: there is none)", Run: writeOld},
		{Name: "write-exists", Rule: "0: there is no record", Run: writeExists},
		{Name: "write-nothing", Rule: "Write applies each write whose Expect is the record's version", Run: writeNothing},
		{Name: "write-refused", Rule: "0 for one that was not applied", Run: writeRefused},
		{Name: "write-versions", Rule: "returns the new version of each in the same order", Run: writeVersions},
		{Name: "write-each", Rule: "Write applies each write whose Expect is the record's version (0: there is none), one by one", Run: writeEach},
		{Name: "write-many", Rule: "Write applies each write", Run: writeMany},
		{Name: "remove", Rule: "nil: the record is removed, and its new version is any number but 0", Run: remove},
		{Name: "remove-answer", Rule: "its new version is any number but 0", Run: removeAnswer},
		{Name: "remove-old", Rule: "Write applies each write whose Expect is the record's version", Run: removeOld},
	}
}

func loadUnknown(ctx context.Context, e Env) error {
	s := e.Store()
	rec, err := load(ctx, s, "a")
	if err == nil && (rec.Version != 0 || rec.Value != nil) {
		err = fmt.Errorf("Load of an unknown key = version %d, %q, want the zero record", rec.Version, rec.Value)
	}
	return err
}

func writeRecord(ctx context.Context, e Env) error {
	s := e.Store()
	if _, err := put(ctx, s, change{Key: "a", Value: []byte("one")}); err != nil {
		return err
	}
	if err := holds(ctx, s, "a", "one"); err != nil {
		return err
	}
	if _, err := put(ctx, s, change{Key: "a", Value: []byte("two")}); err != nil {
		return err
	}
	return first(
		func() error { return holds(ctx, s, "a", "two") },
		func() error { return absent(ctx, s, "b") },
	)
}

// A shorter value leaves nothing of a longer one.
func writeWhole(ctx context.Context, e Env) error {
	s := e.Store()
	for i, value := range []string{"a long one", "short"} {
		if _, err := put(ctx, s, change{Key: "a", Value: []byte(value), Due: after(time.Duration(i) * time.Second)}); err != nil {
			return err
		}
	}
	return holds(ctx, s, "a", "short")
}

func writeOld(ctx context.Context, e Env) error {
	s := e.Store()
	old, err := put(ctx, s, change{Key: "a", Value: []byte("one")})
	if err != nil {
		return err
	}
	if _, err := put(ctx, s, change{Key: "a", Value: []byte("two"), Due: noon}); err != nil {
		return err
	}
	return first(
		func() error {
			return refuses(ctx, s, "at an old version", change{Key: "a", Expect: old[0], Value: []byte("three")})
		},
		func() error { return holds(ctx, s, "a", "two") },
	)
}

func writeExists(ctx context.Context, e Env) error {
	s := e.Store()
	if _, err := put(ctx, s, change{Key: "a", Value: []byte("one")}); err != nil {
		return err
	}
	return first(
		func() error { return refuses(ctx, s, "that expects no record", change{Key: "a", Value: []byte("two")}) },
		func() error { return holds(ctx, s, "a", "one") },
	)
}

func writeNothing(ctx context.Context, e Env) error {
	s := e.Store()
	return first(
		func() error {
			return refuses(ctx, s, "that expects a record where there is none", change{Key: "a", Expect: 7, Value: []byte("one")})
		},
		func() error { return absent(ctx, s, "a") },
	)
}

// A version that there never was; what was not applied leaves the time as well.
func writeRefused(ctx context.Context, e Env) error {
	s := e.Store()
	versions, err := put(ctx, s, change{Key: "a", Value: []byte("one"), Due: noon})
	if err != nil {
		return err
	}
	return first(
		func() error {
			return refuses(ctx, s, "at a version that there is not", change{Key: "a", Expect: versions[0] + 1000, Value: []byte("two"), Due: after(time.Hour)})
		},
		func() error { return holds(ctx, s, "a", "one") },
		func() error { return isDue(ctx, s, after(time.Second), "a") },
	)
}

// Refused and applied writes stand side by side.
func writeVersions(ctx context.Context, e Env) error {
	s := e.Store()
	if _, err := put(ctx, s, change{Key: "b", Value: []byte("old")}, change{Key: "d", Value: []byte("old")}); err != nil {
		return err
	}
	keys := []string{"c", "b", "a", "d", "e"}
	writes := make([]change, len(keys))
	for i, key := range keys {
		writes[i] = change{Key: key, Value: []byte("new")}
	}
	versions, err := write(ctx, s, writes...)
	if err != nil {
		return err
	}
	for i, key := range keys {
		rec, err := load(ctx, s, key)
		if err != nil {
			return err
		}
		want := rec.Version
		if string(rec.Value) == "old" {
			want = 0
		}
		if versions[i] != want {
			return fmt.Errorf("Write answered version %d for %q, Load shows %d, and the value %q", versions[i], key, rec.Version, rec.Value)
		}
	}
	return nil
}

// One that is refused stops no other, before it or behind.
func writeEach(ctx context.Context, e Env) error {
	s := e.Store()
	versions, err := put(ctx, s, change{Key: "b", Value: []byte("old")})
	if err != nil {
		return err
	}
	if _, err := write(ctx, s,
		change{Key: "a", Value: []byte("one")}, change{Key: "b", Expect: versions[0] + 1000, Value: []byte("one")}, change{Key: "c", Value: []byte("one")},
	); err != nil {
		return err
	}
	return first(
		func() error { return holds(ctx, s, "a", "one") },
		func() error { return holds(ctx, s, "b", "old") },
		func() error { return holds(ctx, s, "c", "one") },
	)
}

func writeMany(ctx context.Context, e Env) error {
	s := e.Store()
	writes := make([]change, maxGroup)
	for i := range writes {
		writes[i] = change{Key: fmt.Sprint("k", i), Value: fmt.Append(nil, "v", i)}
	}
	if _, err := write(ctx, s, writes...); err != nil {
		return err
	}
	for i := range writes {
		if err := holds(ctx, s, fmt.Sprint("k", i), fmt.Sprint("v", i)); err != nil {
			return err
		}
	}
	return nil
}

func remove(ctx context.Context, e Env) error {
	s := e.Store()
	versions, err := put(ctx, s, change{Key: "a", Value: []byte("one"), Due: noon}, change{Key: "b", Value: []byte("two"), Due: noon})
	if err != nil {
		return err
	}
	if _, err := write(ctx, s, change{Key: "a", Expect: versions[0], Due: noon}); err != nil {
		return err
	}
	return first(
		func() error { return absent(ctx, s, "a") },
		func() error { return holds(ctx, s, "b", "two") },
		func() error { return isDue(ctx, s, after(time.Second), "b") },
	)
}

func removeAnswer(ctx context.Context, e Env) error {
	s := e.Store()
	old, err := put(ctx, s, change{Key: "a", Value: []byte("one")})
	if err != nil {
		return err
	}
	versions, err := write(ctx, s, change{Key: "a", Expect: old[0]})
	if err == nil && versions[0] == 0 {
		err = fmt.Errorf("Write answered version 0 for a removal that it applied")
	}
	return err
}

func removeOld(ctx context.Context, e Env) error {
	s := e.Store()
	old, err := put(ctx, s, change{Key: "a", Value: []byte("one")})
	if err != nil {
		return err
	}
	if _, err := put(ctx, s, change{Key: "a", Value: []byte("two"), Due: noon}); err != nil {
		return err
	}
	return first(
		func() error {
			return refuses(ctx, s, "that removes an old version", change{Key: "a", Expect: old[0]})
		},
		func() error { return holds(ctx, s, "a", "two") },
	)
}
