package conformance_test

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/attend-go/attend/conformance"
	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/machine"
)

// Wrong stores for the crash suite, each with a fault that shows when a process
// dies or an answer is lost. It tells whole stories, so that what is wrong with
// a store shows in more than one of its cases, and the cases for single rules
// are not asked.
func crashMutants() []mutant {
	return []mutant{
		{wrong: "a process that ends takes its last commit with it", fails: "crash/before", store: func(h *hooks) {
			dying(h, func(ctx context.Context, l *lastCommit) {
				l.restore(ctx, h)
				l.hidden = nil
			}, true)
		}, alike: []string{"crash/after", "crash/lost", "crash/scopes", "crash/groups"}},
		{wrong: "a process that ends leaves the rows of its last commit, without the state", fails: "crash/after", store: func(h *hooks) {
			dying(h, func(ctx context.Context, l *lastCommit) { l.restore(ctx, h) }, false)
		}, alike: []string{"crash/before", "crash/lost", "crash/scopes", "crash/groups"}},
		{wrong: "a process that ends leaves the state of its last commit, without the rows", fails: "crash/after", store: func(h *hooks) {
			dying(h, func(_ context.Context, l *lastCommit) { l.hidden = nil }, true)
		}, alike: []string{"crash/before", "crash/scopes", "crash/groups"}},
		{wrong: "a process that ends leaves its last commit without the time at which its scopes are due", fails: "crash/after", store: func(h *hooks) {
			dying(h, func(ctx context.Context, l *lastCommit) {
				l.each(ctx, h, func(rec attend.Record, w *attend.Write) {
					h.in.Commit(ctx, []attend.Write{{Scope: w.Scope, Expect: rec.Version}})
				})
			}, false)
		}, alike: []string{"crash/before", "crash/lost", "crash/scopes", "crash/groups"}},
		{wrong: "a process that ends leaves its last commit without the last input", fails: "crash/after", store: func(h *hooks) {
			dying(h, func(ctx context.Context, l *lastCommit) {
				l.each(ctx, h, func(rec attend.Record, w *attend.Write) {
					if n := len(rec.Tail); n > 0 && len(w.Inputs) > 0 {
						rec.Tail = rec.Tail[:n-1]
						l.put(ctx, h, w.Scope, rec, w.Due)
					}
				})
			}, false)
		}, alike: []string{"crash/before", "crash/lost", "crash/scopes", "crash/groups"}},
		{wrong: "a snapshot leaves the tail, which is replayed on top of it", fails: "crash/after", store: func(h *hooks) {
			editWrites(h, func(ctx context.Context, w *attend.Write) {
				if rec, _ := h.in.Load(ctx, w.Scope); w.Snapshot != nil && rec.Version == w.Expect {
					w.Inputs = rec.Tail
				}
			})
		}, alike: []string{"crash/before", "crash/lost"}},
		{wrong: "a handle that has loaded a scope doesn't see what it commits itself", fails: "crash/lost", store: func(h *hooks) {
			var mu sync.Mutex
			last := make(map[attend.Scope]*handleCache) // who committed last
			cached(h, &mu, last)
			h.reopen = func(second *hooks) { cached(second, &mu, last) }
		}, alike: []string{"crash/before", "crash/after", "crash/scopes", "crash/processes", "crash/groups"}},
		{wrong: "Due yields one scope", fails: "crash/scopes", store: func(h *hooks) {
			h.due = func(ctx context.Context, now time.Time) iter.Seq2[attend.Scope, error] {
				return gathered(h.in.Due(ctx, now), func(all []attend.Scope) []attend.Scope { return all[:min(len(all), 1)] })
			}
		}, alike: []string{"crash/groups"}},
		{wrong: "versions begin at 1, also after a scope was removed", fails: "crash/processes", store: func(h *hooks) {
			renumber(h, func(_ attend.Scope, before, _ uint64, _ *attend.Write, _ int) uint64 { return before + 1 })
		}},
		{wrong: "nobody is told whose input it was, so that one that is sent again is not known", fails: "crash/processes", store: func(h *hooks) {
			editWrites(h, func(_ context.Context, w *attend.Write) {
				w.Inputs = slices.Clone(w.Inputs)
				for i, b := range w.Inputs {
					w.Inputs[i] = nobodys(b)
				}
			})
		}, alike: []string{"crash/groups"}},
		{wrong: "the last write of a group is answered, and is not applied", fails: "crash/groups", store: func(h *hooks) {
			h.commit = func(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
				n := len(writes)
				if n < 2 {
					return h.in.Commit(ctx, writes)
				}
				out, err := h.in.Commit(ctx, writes[:n-1])
				return append(out, attend.Outcome{Version: writes[n-1].Expect + 1}), err
			}
		}},
	}
}

// tryCrashMutant checks that a wrong store fails its own case, and those that are
// like it.
func tryCrashMutant(t *testing.T, m mutant) {
	for _, c := range conformance.Cases() {
		if c.Name != m.fails && !slices.Contains(m.alike, c.Name) {
			continue
		}
		err := c.Try(t.Context(), time.Minute, m.env())
		if err == nil {
			t.Errorf("%s passes a store where %s", c.Name, m.wrong)
		} else if testing.Verbose() {
			t.Logf("a store where %s fails %s: %v", m.wrong, c.Name, err)
		}
	}
}

// A lastCommit is what a process has committed last, and what was there before.
type lastCommit struct {
	writes []attend.Write
	landed []uint64 // versions, 0 for a conflict
	before []attend.Record
	due    []time.Time
	hidden []attend.Row // rows that nobody has seen yet
}

// dying lets go of something of the last commit when a second handle is opened,
// as the next process does. With late, rows are seen only once somebody asks or
// commits.
func dying(h *hooks, lose func(context.Context, *lastCommit), late bool) {
	var mu sync.Mutex
	var last lastCommit
	due := make(map[attend.Scope]time.Time)
	show := func(ctx context.Context) {
		rowsOf(ctx, h, last.hidden)
		last.hidden = nil
	}
	h.commit = func(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
		mu.Lock()
		defer mu.Unlock()
		show(ctx)
		last = lastCommit{writes: slices.Clone(writes)}
		writes = slices.Clone(writes)
		for i := range writes {
			w := &writes[i]
			rec, _ := h.in.Load(ctx, w.Scope)
			last.before, last.due = append(last.before, rec), append(last.due, due[w.Scope])
			if late && rec.Version == w.Expect {
				last.hidden, w.Rows = append(last.hidden, w.Rows...), nil
			}
			if !w.KeepDue && rec.Version == w.Expect {
				due[w.Scope] = w.Due
			}
		}
		out, err := h.in.Commit(ctx, writes)
		for _, o := range out {
			last.landed = append(last.landed, o.Version)
		}
		return out, err
	}
	onLog(h, func(l *logHooks) {
		l.read = func(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
			mu.Lock()
			defer mu.Unlock()
			show(ctx)
			return l.in.Read(ctx, q)
		}
	})
	h.reopen = func(*hooks) {
		mu.Lock()
		defer mu.Unlock()
		lose(context.Background(), &last)
		show(context.Background())
		last = lastCommit{}
	}
}

// each calls f for the writes that are still the newest of their scopes.
func (l *lastCommit) each(ctx context.Context, h *hooks, f func(rec attend.Record, w *attend.Write)) {
	for i := range l.landed {
		w := &l.writes[i]
		if rec, _ := h.in.Load(ctx, w.Scope); l.landed[i] != 0 && (rec.Version == l.landed[i] || w.Forget && rec.Version == 0) {
			f(rec, w)
		}
	}
}

// restore brings back what was there before.
func (l *lastCommit) restore(ctx context.Context, h *hooks) {
	i := 0
	l.each(ctx, h, func(_ attend.Record, w *attend.Write) {
		for l.writes[i].Scope != w.Scope {
			i++
		}
		l.put(ctx, h, w.Scope, l.before[i], l.due[i])
	})
}

// put makes a scope what rec says.
func (l *lastCommit) put(ctx context.Context, h *hooks, scope attend.Scope, rec attend.Record, due time.Time) {
	h.in.Remove(ctx, scope)
	w := attend.Write{Scope: scope, Due: due, Snapshot: rec.Snapshot}
	if rec.Snapshot == nil {
		w.Inputs = rec.Tail
	}
	if rec.Version == 0 {
		return
	}
	out, _ := h.in.Commit(ctx, []attend.Write{w})
	if rec.Snapshot != nil {
		h.in.Commit(ctx, []attend.Write{{Scope: scope, Expect: out[0].Version, KeepDue: true, Inputs: rec.Tail}})
	}
}

// A handleCache is what a handle has loaded.
type handleCache map[attend.Scope]attend.Record

// cached lets a handle remember what it has loaded until another handle commits.
func cached(h *hooks, mu *sync.Mutex, last map[attend.Scope]*handleCache) {
	mine := make(handleCache)
	h.load = func(ctx context.Context, scope attend.Scope) (attend.Record, error) {
		mu.Lock()
		defer mu.Unlock()
		if rec, ok := mine[scope]; ok && last[scope] == &mine {
			return rec, nil
		}
		rec, err := h.in.Load(ctx, scope)
		mine[scope] = rec
		return rec, err
	}
	h.commit = func(ctx context.Context, writes []attend.Write) ([]attend.Outcome, error) {
		out, err := h.in.Commit(ctx, writes)
		mu.Lock()
		defer mu.Unlock()
		for i, o := range out {
			if !o.Conflict() {
				last[writes[i].Scope] = &mine
			}
		}
		return out, err
	}
	h.remove = func(ctx context.Context, scope attend.Scope) error {
		mu.Lock()
		defer mu.Unlock()
		delete(last, scope)
		return h.in.Remove(ctx, scope)
	}
}

// nobodys is an input without whose it was.
func nobodys(b []byte) []byte {
	in, err := machine.DecodeInput(b)
	if err != nil {
		return b
	}
	switch in := in.(type) {
	case machine.Arrive:
		in.Writer, in.Number = 0, 0
		return machine.EncodeInput(in)
	case machine.Flush:
		in.Writer, in.Number = 0, 0
		return machine.EncodeInput(in)
	case machine.End:
		in.Writer, in.Number = 0, 0
		return machine.EncodeInput(in)
	default:
		return b
	}
}
