package conformance_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	attend "github.com/attend-go/attend/core"
)

func scopeMutants() []mutant {
	return []mutant{
		{wrong: "Load of an unknown scope has an input", fails: "scope/load-unknown", store: func(h *hooks) {
			editRecord(h, func(_ attend.Scope, rec *attend.Record) {
				if rec.Version == 0 {
					rec.Tail = [][]byte{nil}
				}
			})
		}},
		{wrong: "the tail comes newest first", fails: "scope/load-tail", store: func(h *hooks) {
			editRecord(h, func(_ attend.Scope, rec *attend.Record) { slices.Reverse(rec.Tail) })
		}},
		{wrong: "Load returns a buffer that the next Load writes over", fails: "scope/load-stays", store: func(h *hooks) {
			var mu sync.Mutex
			var buf []byte
			h.load = func(ctx context.Context, scope attend.Scope) (attend.Record, error) {
				mu.Lock()
				defer mu.Unlock()
				rec, err := h.in.Load(ctx, scope)
				if len(rec.Snapshot) == 5 { // what the case writes, so that no other has it in its hands
					buf = append(buf[:0], rec.Snapshot...)
					rec.Snapshot = buf
				}
				return rec, err
			}
		}},
		{wrong: "a snapshot leaves the tail", fails: "scope/snapshot-replaces", store: func(h *hooks) {
			editWrites(h, func(ctx context.Context, w *attend.Write) {
				if rec, _ := h.in.Load(ctx, w.Scope); len(w.Snapshot) > 0 && rec.Version == w.Expect {
					w.Inputs = rec.Tail
				}
			})
		}},
		{wrong: "a snapshot of no bytes is none", fails: "scope/snapshot-empty", store: func(h *hooks) {
			editWrites(h, func(_ context.Context, w *attend.Write) {
				if len(w.Snapshot) == 0 {
					w.Snapshot = nil
				}
			})
		}},
		{wrong: "a snapshot of no bytes is loaded as nil", fails: "scope/snapshot-empty", store: func(h *hooks) {
			editRecord(h, func(_ attend.Scope, rec *attend.Record) {
				if len(rec.Snapshot) == 0 {
					rec.Snapshot = nil
				}
			})
		}},
		{wrong: "a first snapshot replaces a scope that exists", fails: "scope/expect-zero", store: func(h *hooks) {
			editWrites(h, func(ctx context.Context, w *attend.Write) {
				if rec, _ := h.in.Load(ctx, w.Scope); w.Expect == 0 && w.Snapshot != nil {
					w.Expect = rec.Version
				}
			})
		}},
		{wrong: "a snapshot makes its scope, whatever version it expects", fails: "scope/expect-unknown", store: func(h *hooks) {
			editWrites(h, func(ctx context.Context, w *attend.Write) {
				if rec, _ := h.in.Load(ctx, w.Scope); rec.Version == 0 && w.Snapshot != nil && !w.Forget {
					w.Expect, w.KeepDue = 0, false
				}
			})
		}},
		{wrong: "a snapshot replaces a newer state", fails: "scope/expect-stale", store: func(h *hooks) {
			editWrites(h, func(ctx context.Context, w *attend.Write) {
				if rec, _ := h.in.Load(ctx, w.Scope); rec.Version != 0 && w.Expect != 0 && w.Snapshot != nil && !w.Forget {
					w.Expect = rec.Version
				}
			})
		}},
		{wrong: "the rows of a conflict land", fails: "scope/conflict-changes-nothing", store: func(h *hooks) {
			h.commit = func(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
				out, err := h.in.Commit(ctx, writes)
				for i, o := range out {
					if o.Conflict() && !writes[i].Forget {
						rowsOf(ctx, h, writes[i].Rows)
					}
				}
				return out, err
			}
		}},
		{wrong: "the due time of a conflict lands", fails: "scope/conflict-changes-nothing", store: func(h *hooks) {
			h.commit = func(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
				out, err := h.in.Commit(ctx, writes)
				for i, o := range out {
					w := writes[i]
					if rec, _ := h.in.Load(ctx, w.Scope); o.Conflict() && rec.Version != 0 && len(w.Rows) > 0 && !w.Due.IsZero() {
						h.in.Commit(ctx, []attend.Write{{Scope: w.Scope, Expect: rec.Version, Due: w.Due}})
					}
				}
				return out, err
			}
		}},
		{wrong: "rows that come with a snapshot are lost", fails: "scope/write-whole", store: func(h *hooks) {
			editWrites(h, func(_ context.Context, w *attend.Write) {
				if w.Snapshot != nil {
					w.Rows = nil
				}
			})
		}},
		{wrong: "a due time that comes with a snapshot is lost", fails: "scope/write-whole", store: func(h *hooks) {
			editWrites(h, func(_ context.Context, w *attend.Write) { w.KeepDue = w.KeepDue || w.Snapshot != nil && w.Expect != 0 })
		}},
		{wrong: "a cancelled context keeps the inputs out and lets the rest in", fails: "scope/write-cancelled", store: func(h *hooks) {
			h.commit = func(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
				if ctx.Err() == nil {
					return h.in.Commit(ctx, writes)
				}
				writes = slices.Clone(writes)
				for i := range writes {
					writes[i].Inputs = nil
				}
				h.in.Commit(context.WithoutCancel(ctx), writes)
				return nil, ctx.Err()
			}
		}},
		{wrong: "one conflict fails the whole group", fails: "scope/group-partial", store: func(h *hooks) {
			h.commit = func(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
				for _, w := range writes {
					if rec, _ := h.in.Load(ctx, w.Scope); rec.Version != w.Expect {
						return make([]attend.Outcome, len(writes)), nil
					}
				}
				return h.in.Commit(ctx, writes)
			}
		}},
		{wrong: "a Commit of nothing is an error", fails: "scope/group-empty", store: func(h *hooks) {
			h.commit = func(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
				if len(writes) == 0 {
					return nil, errors.New("nothing to do")
				}
				return h.in.Commit(ctx, writes)
			}
		}},
		{wrong: "a group has at most 1,000 writes", fails: "scope/group-large", store: func(h *hooks) {
			h.commit = func(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
				out, err := h.in.Commit(ctx, writes[:min(len(writes), 1000)])
				return append(out, make([]attend.Outcome, len(writes)-len(out))...), err
			}
		}},
		{wrong: "the outcomes of more than four writes come in the order of the scopes", fails: "scope/outcome-order", store: func(h *hooks) {
			h.commit = func(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
				if writes = slices.Clone(writes); len(writes) > 4 {
					slices.SortFunc(writes, func(a, b attend.Write) int { return strings.Compare(string(a.Scope), string(b.Scope)) })
				}
				return h.in.Commit(ctx, writes)
			}
		}},
		{wrong: "the outcome of a snapshot names the version after the next", fails: "scope/outcome-version", store: func(h *hooks) {
			h.commit = func(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
				out, err := h.in.Commit(ctx, writes)
				for i := range out {
					if writes[i].Snapshot != nil && !out[i].Conflict() {
						out[i].Version++
					}
				}
				return out, err
			}
		}},
		{wrong: "a write of a due time alone keeps the version", fails: "scope/version-changes", store: func(h *hooks) {
			renumber(h, func(_ attend.Scope, before, real uint64, w *attend.Write, _ int) uint64 {
				if before != 0 && len(w.Inputs) == 0 && w.Snapshot == nil && len(w.Rows) == 0 {
					return before
				}
				return real
			})
		}},
		{wrong: "versions use the top bit", fails: "scope/version-range", store: func(h *hooks) {
			renumber(h, func(_ attend.Scope, _, real uint64, _ *attend.Write, _ int) uint64 { return real | 1<<63 })
		}},
		{wrong: "a scope that was removed 40 times starts where its first life did", fails: "scope/version-after-remove", store: func(h *hooks) {
			first := make(map[attend.Scope]uint64)
			renumber(h, func(scope attend.Scope, before, real uint64, _ *attend.Write, lives int) uint64 {
				if before != 0 {
					return before + 1
				}
				if lives == 0 {
					first[scope] = real
				}
				if lives >= 40 {
					return first[scope]
				}
				return real
			})
		}},
		{wrong: "a scope that was forgotten starts where its first life did", fails: "scope/version-after-forget", store: func(h *hooks) {
			first := make(map[attend.Scope]uint64)
			renumber(h, func(scope attend.Scope, before, real uint64, _ *attend.Write, lives int) uint64 {
				if before != 0 {
					return before + 1
				}
				if lives == 0 {
					first[scope] = real
				}
				if lives < 0 {
					return first[scope]
				}
				return real
			})
		}},
		{wrong: "a scope that comes back starts at a version that can be guessed", fails: "scope/version-random", store: func(h *hooks) {
			var next uint64
			renumber(h, func(_ attend.Scope, before, _ uint64, _ *attend.Write, _ int) uint64 {
				if before != 0 {
					return before + 1
				}
				next += 1000
				return next
			})
		}},
		{wrong: "the store keeps the caller's inputs", fails: "scope/copies-commit", store: func(h *hooks) {
			var mu sync.Mutex
			kept := make(map[attend.Scope][][]byte)
			h.commit = func(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
				mu.Lock()
				defer mu.Unlock()
				for _, w := range writes {
					kept[w.Scope] = w.Inputs
				}
				return h.in.Commit(ctx, writes)
			}
			editRecord(h, func(scope attend.Scope, rec *attend.Record) {
				mu.Lock()
				defer mu.Unlock()
				if mine := kept[scope]; rec.Snapshot == nil && len(mine) == 2 && len(rec.Tail) == 2 {
					rec.Tail = [][]byte{bytes.Clone(mine[0]), bytes.Clone(mine[1])}
				}
			})
		}},
		{wrong: "the store keeps the caller's snapshot", fails: "scope/copies-commit", store: func(h *hooks) {
			kept := new(guarded[attend.Scope, []byte])
			editWrites(h, func(_ context.Context, w *attend.Write) {
				if w.Snapshot != nil {
					kept.set(w.Scope, w.Snapshot)
				}
			})
			editRecord(h, func(scope attend.Scope, rec *attend.Record) {
				if mine, ok := kept.get(scope); ok && rec.Snapshot != nil && len(rec.Snapshot) == len(mine) {
					rec.Snapshot = append([]byte{}, mine...)
				}
			})
		}},
		{wrong: "Load returns the same slices until the next write", fails: "scope/copies-load", store: func(h *hooks) {
			type key struct {
				scope   attend.Scope
				version uint64
			}
			seen := new(guarded[key, attend.Record])
			editRecord(h, func(scope attend.Scope, rec *attend.Record) {
				k := key{scope, rec.Version}
				if old, ok := seen.get(k); ok {
					*rec = old
				}
				seen.set(k, *rec)
			})
		}},
		{wrong: "inputs are kept as text", fails: "scope/bytes", store: func(h *hooks) {
			editRecord(h, func(_ attend.Scope, rec *attend.Record) {
				for i := range rec.Tail {
					rec.Tail[i] = bytes.ToValidUTF8(rec.Tail[i], []byte("\ufffd"))
				}
			})
		}},
		{wrong: "a snapshot ends at its last byte that is not zero", fails: "scope/bytes", store: func(h *hooks) {
			editRecord(h, func(_ attend.Scope, rec *attend.Record) {
				if len(rec.Snapshot) < 1000 {
					rec.Snapshot = bytes.TrimRight(rec.Snapshot, "\x00")
				}
			})
		}},
		{wrong: "an input is cut at 65,535 bytes", fails: "scope/bytes-large", store: func(h *hooks) {
			editRecord(h, func(_ attend.Scope, rec *attend.Record) {
				for i, in := range rec.Tail {
					rec.Tail[i] = in[:min(len(in), 1<<16-1)]
				}
			})
		}},
		{wrong: "names are told apart without regard to case", fails: "scope/names", store: func(h *hooks) { rename(h, strings.ToLower) }},
		{wrong: "names lose the space at their end", fails: "scope/names", store: func(h *hooks) {
			rename(h, func(s string) string { return strings.TrimRight(s, " ") })
		}},
		{wrong: "names are cut at 255 bytes", fails: "scope/names", store: func(h *hooks) {
			rename(h, func(s string) string { return s[:min(len(s), 255)] })
		}},
		{wrong: "a closed store is empty", fails: "scope/closed", store: func(h *hooks) {
			h.alive = "Due"
		}},
		{wrong: "a closed store can be read", fails: "scope/closed", store: func(h *hooks) { h.alive = "Load" }},

		{wrong: "Remove leaves the due time", fails: "scope/remove-forgets", store: func(h *hooks) { ghosts(h, true, false) }},
		{wrong: "Remove leaves the tail for the next life", fails: "scope/remove-forgets", store: func(h *hooks) {
			left := new(guarded[attend.Scope, [][]byte])
			h.remove = func(ctx context.Context, scope attend.Scope) error {
				rec, _ := h.in.Load(ctx, scope)
				left.set(scope, rec.Tail)
				return h.in.Remove(ctx, scope)
			}
			editWrites(h, func(_ context.Context, w *attend.Write) {
				if tail, ok := left.get(w.Scope); ok && w.Expect == 0 && len(w.Inputs) > 0 {
					w.Inputs = slices.Concat(tail, w.Inputs)
				}
			})
		}},
		{wrong: "Remove deletes the scope's rows", fails: "scope/remove-keeps-rows", store: func(h *hooks) {
			removed := new(guarded[attend.Scope, bool])
			h.remove = func(ctx context.Context, scope attend.Scope) error {
				removed.set(scope, true)
				return h.in.Remove(ctx, scope)
			}
			onLog(h, func(l *logHooks) {
				editEntries(l, func(e *attend.Entry) bool { gone, _ := removed.get(e.Scope); return !gone })
			})
		}},
		{wrong: "Remove of a scope that never was is an error", fails: "scope/remove-unknown", store: func(h *hooks) {
			seen := new(guarded[attend.Scope, bool])
			editWrites(h, func(_ context.Context, w *attend.Write) { seen.set(w.Scope, true) })
			h.remove = func(ctx context.Context, scope attend.Scope) error {
				if _, ok := seen.get(scope); !ok {
					return attend.ErrNotFound
				}
				return h.in.Remove(ctx, scope)
			}
		}},
		{wrong: "the rows of a Forget are lost", fails: "scope/forget-removes", store: func(h *hooks) {
			editWrites(h, func(_ context.Context, w *attend.Write) {
				if w.Forget {
					w.Rows = nil
				}
			})
		}},
		{wrong: "a Forget without a due time leaves the old one", fails: "scope/forget-removes", store: func(h *hooks) { ghosts(h, false, true) }},
		{wrong: "Forget takes a newer state with it", fails: "scope/forget-stale", store: func(h *hooks) {
			editWrites(h, func(ctx context.Context, w *attend.Write) {
				if rec, _ := h.in.Load(ctx, w.Scope); w.Forget {
					w.Expect = rec.Version
				}
			})
		}},
		{wrong: "a Forget that carries a snapshot keeps the scope", fails: "scope/forget-alone", store: func(h *hooks) {
			editWrites(h, func(_ context.Context, w *attend.Write) { w.Forget = w.Forget && w.Snapshot == nil })
		}},
		{wrong: "the outcome of a Forget is 0", fails: "scope/forget-outcome", store: func(h *hooks) {
			h.commit = func(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
				out, err := h.in.Commit(ctx, writes)
				for i := range out {
					if writes[i].Forget {
						out[i].Version = 0
					}
				}
				return out, err
			}
		}},
	}
}

// rename stores scopes under other names.
func rename(h *hooks, f func(string) string) {
	to := func(s attend.Scope) attend.Scope { return attend.Scope(f(string(s))) }
	h.load = func(ctx context.Context, scope attend.Scope) (attend.Record, error) { return h.in.Load(ctx, to(scope)) }
	h.remove = func(ctx context.Context, scope attend.Scope) error { return h.in.Remove(ctx, to(scope)) }
	editWrites(h, func(_ context.Context, w *attend.Write) { w.Scope = to(w.Scope) })
}

// ghosts go on being due after their scope is gone.
func ghosts(h *hooks, onRemove, onForget bool) {
	type due = map[attend.Scope]bool
	var mu sync.Mutex
	has, ghost := make(due), make(due)
	gone := func(scope attend.Scope) {
		ghost[scope] = has[scope]
		delete(has, scope)
	}
	h.commit = func(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
		mu.Lock()
		defer mu.Unlock()
		out, err := h.in.Commit(ctx, writes)
		for i, o := range out {
			switch w := writes[i]; {
			case o.Conflict():
			case w.Forget:
				if onForget && w.Due.IsZero() && !w.KeepDue {
					gone(w.Scope)
				}
			case !w.KeepDue:
				has[w.Scope] = !w.Due.IsZero()
			}
		}
		return out, err
	}
	if onRemove {
		h.remove = func(ctx context.Context, scope attend.Scope) error {
			mu.Lock()
			defer mu.Unlock()
			gone(scope)
			return h.in.Remove(ctx, scope)
		}
	}
	h.due = dueOf(h, func(due []attend.Scope) []attend.Scope {
		mu.Lock()
		defer mu.Unlock()
		for scope, is := range ghost {
			if is && !slices.Contains(due, scope) {
				due = append(due, scope)
			}
		}
		return due
	})
}
