package conformance

import (
	"context"
	"fmt"

	attend "github.com/attend-go/attend/core"
)

func versionCases() []Case {
	return []Case{
		{"scope/version-changes", "Version changes with each write and is never used again", "v0.1", versionChanges},
		{"scope/version-range", "It is below 1<<63. 0: the scope is unknown.", "v0.1", versionRange},
		{"scope/version-after-remove", "not after the scope was removed either", "v0.1", versionAfterRemove},
		{"scope/version-after-forget", "not after the scope was removed either", "v0.1", versionAfterForget},
		{"scope/version-random", "a scope that comes back starts at a random one", "v0.1", versionRandom},
	}
}

func versionChanges(ctx context.Context, e Env) error {
	s := e.Store()
	seen := make(map[uint64]bool)
	for range 3 {
		for shape, w := range shapes() {
			w.Scope = "ops"
			if len(seen) == 0 {
				w.KeepDue = false
			}
			v, err := version(ctx, s, w)
			if err != nil {
				return err
			}
			if seen[v] {
				return fmt.Errorf("after a write of %s the scope is at version %d, which it had before", shape, v)
			}
			seen[v] = true
		}
	}
	return nil
}

func versionRange(ctx context.Context, e Env) error {
	s := e.Store()
	for i := range 40 {
		scope := attend.Scope(fmt.Sprint("s-", i))
		for range 2 {
			v, err := version(ctx, s, attend.Write{Scope: scope, Inputs: in("a")})
			if err != nil {
				return err
			}
			if v == 0 || v >= 1<<63 {
				return fmt.Errorf("a scope that exists has version %d, want 1 to 1<<63-1", v)
			}
		}
	}
	return nil
}

func versionAfterRemove(ctx context.Context, e Env) error {
	s := e.Store()
	return lives(ctx, s, "Remove", func(attend.Record) error { return s.Remove(ctx, "ops") })
}

func versionAfterForget(ctx context.Context, e Env) error {
	s := e.Store()
	return lives(ctx, s, "Forget", func(rec attend.Record) error {
		_, err := commit(ctx, s, attend.Write{Scope: "ops", Expect: rec.Version, Forget: true})
		return err
	})
}

// lives makes the scope, writes it a few times and ends it, again and again,
// and checks that no version comes twice.
func lives(ctx context.Context, s attend.ScopeStore, what string, end func(attend.Record) error) error {
	seen := make(map[uint64]int)
	for life := range 60 {
		for range 3 {
			v, err := version(ctx, s, attend.Write{Scope: "ops", Inputs: in("a")})
			if err != nil {
				return err
			}
			if before, ok := seen[v]; ok {
				return fmt.Errorf("life %d of a scope that ended by %s has version %d, which life %d had", life, what, v, before)
			}
			seen[v] = life
		}
		rec, err := load(ctx, s, "ops")
		if err != nil {
			return err
		}
		if err := end(rec); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

// A random version may be of 53 bits or of 62. Two of 32 that are within 65,536
// of each other come by chance once in a hundred million runs.
func versionRandom(ctx context.Context, e Env) error {
	s := e.Store()
	var seen []uint64
	for range 32 {
		v, err := version(ctx, s, attend.Write{Scope: "ops", Inputs: in("a")})
		if err != nil {
			return err
		}
		for _, o := range seen {
			if max(v, o)-min(v, o) < 1<<16 {
				return fmt.Errorf("a scope that came back starts at version %d, and at %d in another life: a writer that slept can guess that", v, o)
			}
		}
		seen = append(seen, v)
		if err := s.Remove(ctx, "ops"); err != nil {
			return fmt.Errorf("Remove: %w", err)
		}
	}
	return nil
}
