package conformance_test

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
)

type dueFunc = func(context.Context, time.Time) iter.Seq2[attend.Scope, error]

// dueOf changes the list of what is due.
func dueOf(h *hooks, arrange func([]attend.Scope) []attend.Scope) dueFunc {
	return func(ctx context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
		return gathered(h.in.Due(ctx, now), arrange)
	}
}

// tracked is the due time of each scope, as its writes had it.
func tracked(h *hooks, edit func(before time.Time, w *attend.Write)) *guarded[attend.Scope, time.Time] {
	due := new(guarded[attend.Scope, time.Time])
	editWrites(h, func(ctx context.Context, w *attend.Write) {
		if rec, _ := h.in.Load(ctx, w.Scope); rec.Version != w.Expect || w.Forget {
			return
		}
		before, _ := due.get(w.Scope)
		if edit(before, w); !w.KeepDue {
			due.set(w.Scope, w.Due)
		}
	})
	return due
}

func dueMutants() []mutant {
	return []mutant{
		{wrong: "a scope is due only after its due time", fails: "scope/due-boundary", store: func(h *hooks) {
			h.due = func(ctx context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
				return h.in.Due(ctx, now.Add(-time.Millisecond))
			}
		}},
		{wrong: "Due goes by name", fails: "scope/due-order", store: func(h *hooks) {
			h.due = dueOf(h, func(due []attend.Scope) []attend.Scope { return slices.Sorted(slices.Values(due)) })
		}},
		{wrong: "Due ends after 1,000 scopes", fails: "scope/due-many", store: func(h *hooks) {
			h.due = dueOf(h, func(due []attend.Scope) []attend.Scope { return due[:min(len(due), 1000)] })
		}},
		{wrong: "a page of Due begins behind the last one's due time, and leaves out who shares it", fails: "scope/due-many", store: func(h *hooks) {
			at := tracked(h, func(time.Time, *attend.Write) {})
			h.due = dueOf(h, func(due []attend.Scope) (out []attend.Scope) {
				var last time.Time
				for i, scope := range due {
					t, _ := at.get(scope)
					if i%100 == 0 && i > 0 {
						last, _ = at.get(due[i-1])
					}
					if last.IsZero() || t.After(last) {
						out = append(out, scope)
					}
				}
				return out
			})
		}},
		{wrong: "a write with no due time leaves the old one", fails: "scope/due-never", store: func(h *hooks) {
			editWrites(h, func(_ context.Context, w *attend.Write) { w.KeepDue = w.KeepDue || w.Due.IsZero() && w.Expect != 0 })
		}},
		{wrong: "a due time moves to earlier alone", fails: "scope/due-moves", store: func(h *hooks) {
			tracked(h, func(before time.Time, w *attend.Write) {
				if !before.IsZero() && w.Due.After(before) {
					w.Due = before
				}
			})
		}},
		{wrong: "KeepDue is not looked at", fails: "scope/due-keep", store: func(h *hooks) {
			editWrites(h, func(_ context.Context, w *attend.Write) { w.KeepDue = false })
		}},
		{wrong: "Due asks a clock", fails: "scope/due-clock", store: func(h *hooks) {
			h.due = func(ctx context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
				if real := time.Now(); now.After(real) {
					now = real
				}
				return h.in.Due(ctx, now)
			}
		}},
		{wrong: "Due writes to the few scopes that it yields", fails: "scope/due-claims-nothing", store: func(h *hooks) {
			h.due = func(ctx context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
				return gathered(h.in.Due(ctx, now), func(due []attend.Scope) []attend.Scope {
					for _, scope := range due {
						if rec, _ := h.in.Load(ctx, scope); len(due) < 10 {
							h.in.Commit(ctx, []attend.Write{{Scope: scope, Expect: rec.Version, KeepDue: true}})
						}
					}
					return due
				})
			}
		}},
		{wrong: "Due holds a lock that Remove needs", fails: "scope/due-holds-nothing", hangs: true, store: func(h *hooks) {
			lockDue(h, false)
		}},
		{wrong: "a Due that is left early keeps a lock that Remove needs", fails: "scope/due-left", hangs: true, store: func(h *hooks) {
			lockDue(h, true)
		}},
		{wrong: "Due pages by number, which moves when scopes before it are worked", fails: "scope/due-consumed", store: func(h *hooks) {
			h.due = func(ctx context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
				return func(yield func(attend.Scope, error) bool) {
					for page := 0; ; page++ {
						n := 0
						for scope, err := range h.in.Due(ctx, now) {
							if n++; n <= 100*page {
								continue
							}
							if n > 100*(page+1) {
								break
							}
							if !yield(scope, err) {
								return
							}
						}
						if n <= 100*(page+1) {
							return
						}
					}
				}
			}
		}, also: map[string]string{"concurrent/due": "what others work moves the pages as well"}},
		{wrong: "Due goes on behind an error", fails: "scope/due-error", store: func(h *hooks) {
			h.due = func(ctx context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
				return onAfter(h.in.Due(ctx, now))
			}
		}},
	}
}

func lockDue(h *hooks, leaks bool) {
	l := new(sync.RWMutex)
	h.due = func(ctx context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
		return locked(l, leaks, h.in.Due(ctx, now))
	}
	h.remove = func(ctx context.Context, scope attend.Scope) error {
		l.Lock()
		defer l.Unlock()
		return h.in.Remove(ctx, scope)
	}
}
