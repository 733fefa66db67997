package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
	"github.com/attend-go/attend/core/memory"
)

func logMutants() []mutant {
	return []mutant{
		{wrong: "a log finds only what was there when Log returned it", fails: "log/same", store: func(h *hooks) {
			onLog(h, func(l *logHooks) {
				then, _ := l.in.Bounds(context.Background())
				l.find = func(ctx context.Context, id attend.DecisionID, t attend.RowType) (attend.Entry, error) {
					e, err := l.in.Find(ctx, id, t)
					if e.Cursor.Position > then.Newest {
						return attend.Entry{}, attend.ErrNotFound
					}
					return e, err
				}
			})
		}},
		{wrong: "an empty log's own cursor is truncated", fails: "log/empty", store: func(h *hooks) {
			onLog(h, func(l *logHooks) {
				l.read = func(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
					if b, _ := l.in.Bounds(ctx); b.Newest == 0 && q.After.Epoch == b.Epoch {
						return failing[attend.Entry](&attend.TruncatedError{})
					}
					return l.in.Read(ctx, q)
				}
			})
		}},
		{wrong: "Read goes by the rows' times", fails: "log/order", store: func(h *hooks) {
			arrangeRead(h, func(_ attend.Query, all []attend.Entry) []attend.Entry {
				slices.SortStableFunc(all, func(a, b attend.Entry) int { return a.At.Compare(b.At) })
				return all
			})
		}},
		{wrong: "the rows of a write land in reverse", fails: "log/write-order", store: func(h *hooks) {
			editWrites(h, func(_ context.Context, w *attend.Write) {
				w.Rows = slices.Clone(w.Rows)
				slices.Reverse(w.Rows)
			})
		}},
		{wrong: "a row's time is kept in seconds", fails: "log/columns", store: func(h *hooks) {
			editRows(h, func(r *attend.Row) { r.At = r.At.Truncate(time.Second) })
		}},
		{wrong: "bodies are kept as values, not bytes", fails: "log/body", store: func(h *hooks) {
			editRows(h, func(r *attend.Row) {
				var b bytes.Buffer
				if json.Compact(&b, r.Body) == nil {
					r.Body = b.Bytes()
				}
			})
		}},
		{wrong: "the log keeps the caller's bodies", fails: "log/copies-commit", store: func(h *hooks) {
			bodies := new(guarded[attend.DecisionID, []byte])
			editRows(h, func(r *attend.Row) { bodies.set(r.ID, r.Body) })
			onLog(h, func(l *logHooks) {
				l.find = func(ctx context.Context, id attend.DecisionID, t attend.RowType) (attend.Entry, error) {
					e, err := l.in.Find(ctx, id, t)
					if mine, _ := bodies.get(id); err == nil && len(mine) == len(e.Body) {
						e.Body = bytes.Clone(mine)
					}
					return e, err
				}
			})
		}},
		{wrong: "Read yields the same body each time", fails: "log/copies-read", store: func(h *hooks) {
			bodies := new(guarded[attend.Position, []byte])
			onLog(h, func(l *logHooks) {
				editEntries(l, func(e *attend.Entry) bool {
					if old, ok := bodies.get(e.Cursor.Position); ok {
						e.Body = old
					}
					bodies.set(e.Cursor.Position, e.Body)
					return true
				})
			})
		}},
		{wrong: "Read ends after 1,000 rows", fails: "log/pages", store: func(h *hooks) {
			arrangeRead(h, func(_ attend.Query, all []attend.Entry) []attend.Entry { return all[:min(len(all), 1000)] })
		}},
		{wrong: "a query that names no types gets all", fails: "log/types", store: func(h *hooks) {
			editQuery(h, func(_ attend.Bounds, q *attend.Query) {
				if len(q.Types) == 0 {
					q.Types = []attend.RowType{attend.RowDecision, attend.RowLetter, attend.RowVerdict}
				}
			})
		}},
		{wrong: "a query of several types gets one after the other", fails: "log/types", store: func(h *hooks) {
			arrangeRead(h, func(_ attend.Query, all []attend.Entry) []attend.Entry {
				slices.SortStableFunc(all, func(a, b attend.Entry) int { return strings.Compare(string(a.Type), string(b.Type)) })
				return all
			})
		}},
		{wrong: "a prefix is any beginning", fails: "log/prefix", store: func(h *hooks) {
			matchPrefix(h, func(p attend.Prefix, s attend.Scope) bool { return strings.HasPrefix(string(s), string(p)) })
		}},
		{wrong: "a prefix is a pattern", fails: "log/prefix", store: func(h *hooks) {
			matchPrefix(h, func(p attend.Prefix, s attend.Scope) bool {
				like := strings.NewReplacer("%", ".*", "_", ".").Replace(regexp.QuoteMeta(string(p)))
				return p.Covers(s) || regexp.MustCompile("(?s)^"+like+"([/:].*)?$").MatchString(string(s))
			})
		}},
		{wrong: "a prefix has no regard to case", fails: "log/prefix", store: func(h *hooks) {
			matchPrefix(h, func(p attend.Prefix, s attend.Scope) bool {
				return attend.Prefix(strings.ToLower(string(p))).Covers(attend.Scope(strings.ToLower(string(s))))
			})
		}},
		{wrong: "Find returns the oldest row of an id", fails: "log/find-newest", store: func(h *hooks) {
			onLog(h, func(l *logHooks) {
				l.find = func(ctx context.Context, id attend.DecisionID, t attend.RowType) (attend.Entry, error) {
					if t == "" {
						t = attend.RowDecision
					}
					for e := range l.in.Read(ctx, attend.Query{Types: []attend.RowType{t}}) {
						if e.ID == id {
							return e, nil
						}
					}
					return attend.Entry{}, attend.ErrNotFound
				}
			})
		}},
		{wrong: "Find of no type finds any", fails: "log/find-type", store: func(h *hooks) {
			onLog(h, func(l *logHooks) {
				l.find = func(ctx context.Context, id attend.DecisionID, t attend.RowType) (attend.Entry, error) {
					if e, err := l.in.Find(ctx, id, attend.RowVerdict); t == "" && err == nil {
						return e, nil
					}
					return l.in.Find(ctx, id, t)
				}
			})
		}},
		{wrong: "Find of a letter that there isn't returns the zero Entry", fails: "log/find-unknown", store: func(h *hooks) {
			onLog(h, func(l *logHooks) {
				l.find = func(ctx context.Context, id attend.DecisionID, t attend.RowType) (attend.Entry, error) {
					e, err := l.in.Find(ctx, id, t)
					if t == attend.RowLetter && ctx.Err() == nil {
						err = nil
					}
					return e, err
				}
			})
		}},
		{wrong: "scope, type and id are a key of the log", fails: "log/ids-repeat", store: func(h *hooks) {
			type key struct {
				scope attend.Scope
				t     attend.RowType
				id    attend.DecisionID
			}
			seen := new(guarded[key, bool])
			editWrites(h, func(ctx context.Context, w *attend.Write) {
				if rec, _ := h.in.Load(ctx, w.Scope); rec.Version != w.Expect {
					return
				}
				w.Rows = slices.DeleteFunc(slices.Clone(w.Rows), func(r attend.Row) bool {
					k := key{r.Scope, r.Type, r.ID}
					_, ok := seen.get(k)
					seen.set(k, true)
					return ok
				})
			})
		}},
		{wrong: "Read holds a lock that Remove needs", fails: "log/holds-nothing", hangs: true, store: func(h *hooks) { lockRead(h, false) }},
		{wrong: "a Read that is left early keeps a lock that Remove needs", fails: "log/left", hangs: true, store: func(h *hooks) { lockRead(h, true) }},
		{wrong: "Read goes on behind an error", fails: "log/error", store: func(h *hooks) {
			onLog(h, func(l *logHooks) {
				l.read = func(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
					return onAfter(l.in.Read(ctx, q))
				}
			})
		}},
		{wrong: "a closed log says that it has no such row", fails: "log/closed", store: func(h *hooks) {
			h.log = func(_ *memory.Store, l *logHooks) { l.alive = "Find" }
		}},
		{wrong: "Wait on a closed log blocks", fails: "log/closed", hangs: true, store: func(h *hooks) {
			h.log = func(_ *memory.Store, l *logHooks) { l.alive = "Wait" }
		}, also: map[string]string{"log/wait-closed": "so does a Wait that came before"}},

		{wrong: "Wait from the start waits for what comes next", fails: "log/wait-there", hangs: true, store: func(h *hooks) {
			onWait(h, func(ctx context.Context, l *logHooks, q attend.Query) error {
				if b, _ := l.in.Bounds(ctx); q.After == (attend.LogCursor{}) {
					q.After = attend.LogCursor{Epoch: b.Epoch, Position: b.Newest}
				}
				return l.in.(attend.Waiter).Wait(ctx, q)
			})
		}},
		{wrong: "Wait behind a truncated cursor blocks", fails: "log/wait-truncated", hangs: true, store: func(h *hooks) {
			onWait(h, func(ctx context.Context, l *logHooks, q attend.Query) error {
				if b, _ := l.in.Bounds(ctx); b.Check(q) != nil {
					<-ctx.Done()
					return ctx.Err()
				}
				return l.in.(attend.Waiter).Wait(ctx, q)
			})
		}},
		{wrong: "Wait does not wake for dead letters", fails: "log/wait-wakes", hangs: true, store: func(h *hooks) {
			onWait(h, func(ctx context.Context, l *logHooks, q attend.Query) error {
				if q.Wants(attend.RowLetter) {
					q.Types = nil
				}
				return l.in.(attend.Waiter).Wait(ctx, q)
			})
		}},
		{wrong: "Wait with a prefix wakes only for what is below it", fails: "log/wait-narrowed", hangs: true, store: func(h *hooks) {
			onWait(h, func(ctx context.Context, l *logHooks, q attend.Query) error {
				if q.Prefix != "" && !strings.HasSuffix(string(q.Prefix), "/") {
					q.Prefix += "/"
				}
				return l.in.(attend.Waiter).Wait(ctx, q)
			})
		}},
		{wrong: "Wait returns nil when its context ends", fails: "log/wait-ends", store: func(h *hooks) {
			onWait(h, func(ctx context.Context, l *logHooks, q attend.Query) error {
				l.in.(attend.Waiter).Wait(ctx, q)
				return nil
			})
		}},
		{wrong: "a Wait that blocks goes on when its store is closed", fails: "log/wait-closed", hangs: true, store: func(h *hooks) { waitAtClose(h, goesOn) }},
		{wrong: "a Wait that blocks says that its context was cancelled when its store is closed", fails: "log/wait-closed", store: func(h *hooks) { waitAtClose(h, givesUp) }},
	}
}

// arrangeRead changes the list of what Read yields.
func arrangeRead(h *hooks, arrange func(q attend.Query, all []attend.Entry) []attend.Entry) {
	onLog(h, func(l *logHooks) {
		l.read = func(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
			return gathered(l.in.Read(ctx, q), func(all []attend.Entry) []attend.Entry { return arrange(q, all) })
		}
	})
}

// editQuery reads by another query.
func editQuery(h *hooks, edit func(b attend.Bounds, q *attend.Query)) {
	onLog(h, func(l *logHooks) {
		l.read = func(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
			b, _ := l.in.Bounds(ctx)
			edit(b, &q)
			return l.in.Read(ctx, q)
		}
	})
}

// editRows changes rows on their way in.
func editRows(h *hooks, edit func(r *attend.Row)) {
	editWrites(h, func(_ context.Context, w *attend.Write) {
		w.Rows = slices.Clone(w.Rows)
		for i := range w.Rows {
			edit(&w.Rows[i])
		}
	})
}

// matchPrefix reads everything and narrows it in its own way.
func matchPrefix(h *hooks, covers func(attend.Prefix, attend.Scope) bool) {
	onLog(h, func(l *logHooks) {
		l.read = func(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
			p := q.Prefix
			q.Prefix = ""
			return keeping(l.in.Read(ctx, q), func(e *attend.Entry) bool { return covers(p, e.Scope) })
		}
	})
}

func onWait(h *hooks, wait func(ctx context.Context, l *logHooks, q attend.Query) error) {
	onLog(h, func(l *logHooks) {
		l.wait = func(ctx context.Context, q attend.Query) error { return wait(ctx, l, q) }
	})
}

// waitAtClose breaks what a Wait that blocks answers when its store is closed.
func waitAtClose(h *hooks, atClose func(context.Context) error) {
	onLog(h, func(l *logHooks) {
		l.wait, l.atClose = l.in.(attend.Waiter).Wait, atClose
	})
}

func lockRead(h *hooks, leaks bool) {
	mu := new(sync.RWMutex)
	onLog(h, func(l *logHooks) {
		l.read = func(ctx context.Context, q attend.Query) iter.Seq2[attend.Entry, error] {
			return locked(mu, leaks, l.in.Read(ctx, q))
		}
	})
	h.remove = func(ctx context.Context, scope attend.Scope) error {
		mu.Lock()
		defer mu.Unlock()
		return h.in.Remove(ctx, scope)
	}
}
