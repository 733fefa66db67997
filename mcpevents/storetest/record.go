package storetest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"
)

// maxRecord is how large the records become.
const maxRecord = 64 << 10

func recordCases() []Case {
	return []Case{
		{Name: "version-changes", Rule: "Version changes with each write", Run: versionChanges},
		{Name: "version-removed", Rule: "is never used again for this key, not after the record was removed either", Run: versionRemoved},
		{Name: "value-bytes", Rule: "A store knows nothing of what is in the bytes", Run: valueBytes},
		{Name: "value-large", Rule: "A record is a few hundred bytes, and at most about 64 KiB.", Run: valueLarge},
		{Name: "keys", Rule: "Keys are 1 to 64 of a-z 0-9 _.", Run: keys},
		{Name: "copies-written", Rule: "copies what it keeps", Run: copiesWritten},
		{Name: "copies-loaded", Rule: "copies what it keeps", Run: copiesLoaded},
		{Name: "copies-kept", Rule: "returns no memory that a later call writes over", Run: copiesKept},
	}
}

// The same value is a write like any other.
func versionChanges(ctx context.Context, e Env) error {
	s := e.Store()
	seen := map[uint64]bool{0: true}
	for range 10 {
		rec, err := load(ctx, s, "a")
		if err != nil {
			return err
		}
		if _, err := write(ctx, s, change{Key: "a", Expect: rec.Version, Value: []byte("same"), Due: noon}); err != nil {
			return err
		}
		if rec, err = load(ctx, s, "a"); err != nil {
			return err
		}
		if seen[rec.Version] {
			return fmt.Errorf("after another write the version is %d again", rec.Version)
		}
		seen[rec.Version] = true
	}
	return nil
}

func versionRemoved(ctx context.Context, e Env) error {
	s := e.Store()
	seen := map[uint64]bool{}
	for range 5 {
		versions, err := put(ctx, s, change{Key: "a", Value: []byte("one")})
		if err != nil {
			return err
		}
		if seen[versions[0]] {
			return fmt.Errorf("a record that was made after a removal has version %d again", versions[0])
		}
		seen[versions[0]] = true
		if _, err := write(ctx, s, change{Key: "a", Expect: versions[0]}); err != nil {
			return err
		}
	}
	return nil
}

func valueBytes(ctx context.Context, e Env) error {
	s := e.Store()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for i, value := range []string{string(all), "\xff\xfe", "a\x00b", "\x00", " {\"a\": 1}\n ", "'; --", "u\u0308 \u2028"} {
		key := fmt.Sprint("k", i)
		if _, err := put(ctx, s, change{Key: key, Value: []byte(value)}); err != nil {
			return err
		}
		if err := holds(ctx, s, key, value); err != nil {
			return err
		}
	}
	return nil
}

func valueLarge(ctx context.Context, e Env) error {
	s := e.Store()
	value := bytes.Repeat([]byte("0123456789abcde\n"), maxRecord/16)
	if _, err := put(ctx, s, change{Key: "a", Value: value}); err != nil {
		return err
	}
	return holds(ctx, s, "a", string(value))
}

// Keys that begin alike, or look like patterns or numbers, are different ones.
func keys(ctx context.Context, e Env) error {
	s := e.Store()
	long := strings.Repeat("k", 63)
	list := []string{"a", "b", "_", "__", "a_", "ab", "a_b", "axb", "0", "00", "1", "01", "1e1", "10", "null", "acc_0", "sub_0", long, long + "1", long + "2"}
	for _, key := range list {
		if _, err := put(ctx, s, change{Key: key, Value: []byte("of " + key), Due: noon}); err != nil {
			return err
		}
	}
	for _, key := range list {
		if err := holds(ctx, s, key, "of "+key); err != nil {
			return err
		}
	}
	return isDue(ctx, s, after(time.Second), list...)
}

func copiesWritten(ctx context.Context, e Env) error {
	s := e.Store()
	value := []byte("one")
	if _, err := put(ctx, s, change{Key: "a", Value: value}); err != nil {
		return err
	}
	copy(value, "XXX")
	return holds(ctx, s, "a", "one")
}

func copiesLoaded(ctx context.Context, e Env) error {
	s := e.Store()
	if _, err := put(ctx, s, change{Key: "a", Value: []byte("one")}); err != nil {
		return err
	}
	rec, err := load(ctx, s, "a")
	if err != nil {
		return err
	}
	copy(rec.Value, "XXX")
	return holds(ctx, s, "a", "one")
}

func copiesKept(ctx context.Context, e Env) error {
	s := e.Store()
	if _, err := put(ctx, s, change{Key: "a", Value: []byte("one")}, change{Key: "b", Value: []byte("two")}); err != nil {
		return err
	}
	rec, err := load(ctx, s, "a")
	if err != nil {
		return err
	}
	if _, err := load(ctx, s, "b"); err != nil {
		return err
	}
	if _, err := write(ctx, s, change{Key: "a", Expect: rec.Version, Value: []byte("new")}); err != nil {
		return err
	}
	if _, err := load(ctx, s, "a"); err != nil {
		return err
	}
	if string(rec.Value) != "one" {
		return fmt.Errorf("what Load returned was %q, and is %q after later calls", "one", rec.Value)
	}
	return nil
}
